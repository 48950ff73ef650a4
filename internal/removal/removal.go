// Package removal is the only way in which the program removes something of a user's: a plan is gathered from what the
// owners find on disk, kept until it is confirmed, looked at again, journaled and carried out. It is a use
// case: [Owner] is what it needs. Read removal.go, then journal.go and carry.go.
//
// Laws: what is removed is what the plan named; symbolic links are removed, never followed; a removal whose
// journal is written is finished, by the next daemon if need be; nothing is removed before the journal is on the disk.
package removal

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/internal/verb"
)

// Draft is what an owner says to a request for a plan: the plan without ID and time, and how it is carried out.
type Draft struct {
	Plan  verb.Plan
	Moves []Move
	After []string
}

// Owner makes plans for the verbs that concern what it has.
type Owner interface {
	// Draft looks at what is on disk now and plans v for the subject with that ID. It changes nothing.
	Draft(ctx context.Context, v verb.Verb, subject string) (Draft, error)
	// Hold makes sure that nothing uses the subject, until release is called: a workspace is locked. It refuses when something does.
	Hold(ctx context.Context, v verb.Verb, subject string) (release func(), err error)
}

// Remover keeps plans and carries them out. Fields are set before the first use.
type Remover struct {
	Root  layout.Root
	Owner func(v verb.Verb) (Owner, error) // which owner plans a verb
	After map[string]func(subject string) error
	Now   func() time.Time
	Log   *slog.Logger

	mu    sync.Mutex
	plans map[string]kept // by ID, until they are done or too old
	done  map[string]time.Time
}

// kept is a plan that a front was shown.
type kept struct {
	draft Draft
	busy  chan struct{} // closed when the one who carries it out is through; nil before
}

// PlanLife is how long a plan waits for its answer. The look before it is carried out is what makes it safe, not this.
const PlanLife = 30 * time.Minute

// maxPlans bounds how many plans wait; the oldest goes first.
const maxPlans = 64

// Plan plans a verb and keeps the plan until it is carried out.
func (r *Remover) Plan(ctx context.Context, v verb.Verb, subject string) (verb.Plan, error) {
	o, err := r.Owner(v)
	if err != nil {
		return verb.Plan{}, err
	}
	d, err := o.Draft(ctx, v, subject)
	if err != nil {
		return verb.Plan{}, err
	}
	d.Plan.ID, d.Plan.Made = newID(), r.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tidy()
	if r.plans == nil {
		r.plans, r.done = map[string]kept{}, map[string]time.Time{}
	}
	r.plans[d.Plan.ID] = kept{draft: d}
	return d.Plan, nil
}

// tidy forgets plans that nobody will answer. The lock is held.
func (r *Remover) tidy() {
	oldest := ""
	for id, k := range r.plans {
		if k.busy == nil && r.Now().Sub(k.draft.Plan.Made) > PlanLife {
			delete(r.plans, id)
			continue
		}
		if k.busy == nil && (oldest == "" || k.draft.Plan.Made.Before(r.plans[oldest].draft.Plan.Made)) {
			oldest = id
		}
	}
	if len(r.plans) >= maxPlans && oldest != "" {
		delete(r.plans, oldest)
	}
	for id, at := range r.done {
		if r.Now().Sub(at) > PlanLife {
			delete(r.done, id)
		}
	}
}

// Changed is the refusal of a plan whose subject is not any more what it was: New is the plan as it is now.
type Changed struct{ New verb.Plan }

func (*Changed) Error() string { return "what the plan is about has changed meanwhile" }

// Do carries out the plan with that ID. A plan is carried out once: whoever confirms it a second time is told that it is done.
// When what it names has changed, nothing is removed and the error is a [*Changed].
func (r *Remover) Do(ctx context.Context, planID string) (verb.Plan, error) {
	r.mu.Lock()
	if _, ok := r.done[planID]; ok {
		r.mu.Unlock()
		return verb.Plan{}, problem.New(problem.Refused, "this plan has been carried out already", "")
	}
	k, ok := r.plans[planID]
	if !ok {
		r.mu.Unlock()
		return verb.Plan{}, problem.New(problem.NotFound, "there is no such plan any more", "Ask for a new one.")
	}
	if k.busy != nil {
		r.mu.Unlock()
		return verb.Plan{}, problem.New(problem.Refused, "this plan is being carried out already", "")
	}
	k.busy = make(chan struct{})
	r.plans[planID] = k
	r.mu.Unlock()

	p := k.draft.Plan
	err := r.hold(ctx, p)
	r.mu.Lock()
	delete(r.plans, planID)
	if err == nil {
		r.done[planID] = r.Now()
	}
	close(k.busy)
	r.mu.Unlock()
	return p, err
}

// hold carries a plan out while nothing else uses its subject.
func (r *Remover) hold(ctx context.Context, shown verb.Plan) error {
	o, err := r.Owner(shown.Verb)
	if err != nil {
		return err
	}
	release, err := o.Hold(ctx, shown.Verb, shown.Subject.ID)
	if err != nil {
		return err
	}
	defer release()
	now, err := o.Draft(ctx, shown.Verb, shown.Subject.ID)
	if err != nil {
		return err
	}
	if now.Plan.Seen != shown.Seen {
		fresh, err := r.Plan(ctx, shown.Verb, shown.Subject.ID)
		if err != nil {
			return err
		}
		return problem.Wrap(problem.Refused, &Changed{fresh}, fmt.Sprintf("%s %q", shown.Verb, shown.Subject.Name), "Look at the new plan.")
	}
	// The moves are of the second look: its identities are the ones on disk.
	now.Plan.ID, now.Plan.Made = shown.ID, shown.Made
	job := Job{Version: journalVersion, Plan: now.Plan, Moves: now.Moves, After: now.After}
	if err := r.write(job); err != nil {
		return err
	}
	r.Log.Info("removal begins", "verb", shown.Verb, "subject", shown.Subject.ID, "plan", shown.ID, "things", len(shown.Losses))
	return r.finish(job)
}

// finish carries out a job whose journal is written, and makes sure that there is room for the next journal.
func (r *Remover) finish(job Job) error {
	if err := r.carry(job); err != nil {
		return problem.Wrap(problem.Failed, err, fmt.Sprintf("%s %q has begun and could not be finished", job.Plan.Verb, job.Plan.Subject.Name),
			"When what is in the way is gone, the next start of the daemon finishes it: bromure-cli daemon stop")
	}
	if err := r.Ready(); err != nil {
		r.Log.Warn("make room for the next journal", "error", err)
	}
	return nil
}

// Unasked plans a removal and carries it out at once: for what the program removes by itself. It is logged like any other.
func (r *Remover) Unasked(ctx context.Context, v verb.Verb, subject string) (verb.Plan, error) {
	p, err := r.Plan(ctx, v, subject)
	if err != nil {
		return p, err
	}
	_, err = r.Do(ctx, p.ID)
	return p, err
}

func newID() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
