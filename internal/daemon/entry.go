package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/internal/verb"
	"bromure.io/tui/vm"
)

// entry is what the daemon knows about one workspace beyond its files: what its machine does and which
// operation is under way. Entries are guarded by Daemon.mu; a workspace that is off and was
// never touched has none.
type entry struct {
	state   vm.State
	machine *machine   // nil unless a machine exists
	op      *operation // nil unless a verb is under way
	steps   []wire.Step
}

// operation is a verb under way. It goes on when the front that asked for it goes away: a boot does
// not stop because a terminal was closed.
type operation struct {
	verb   verb.Verb
	cancel context.CancelFunc
	done   chan struct{} // closed when err is set
	err    error
}

// entryOf returns the entry of a workspace, made when it is missing. Daemon.mu is held.
func (d *Daemon) entryOf(id vm.ID) *entry {
	e := d.entries[id]
	if e == nil {
		e = &entry{state: vm.Off}
		d.entries[id] = e
	}
	return e
}

// status is what decides which verbs are allowed. Daemon.mu is held.
func (d *Daemon) status(id vm.ID) vm.Status {
	s := vm.Status{State: vm.Off}
	if e := d.entries[id]; e != nil {
		s.State = e.state
	}
	if s.State == vm.Off {
		if st, err := d.store.MachineState(id); err == nil && st.Failure != nil {
			s.State = vm.Broken
		}
	}
	mark, err := d.store.Compromise(id)
	if err != nil {
		mark = &vm.Compromise{Reason: err.Error()}
	}
	s.Compromised = mark
	return s
}

// reporter passes progress on to a front as long as it listens.
type reporter struct {
	mu   sync.Mutex
	to   func(wire.Progress)
	gone bool
}

func (r *reporter) report(p wire.Progress) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.gone && r.to != nil {
		r.to(p)
	}
}

func (r *reporter) leave() {
	r.mu.Lock()
	r.gone = true
	r.mu.Unlock()
}

// operate does a verb on a workspace that allows it, one verb at a time. It returns when the verb is done, or
// when ctx ends: then the verb goes on by itself.
func (d *Daemon) operate(ctx context.Context, ws vm.Workspace, v verb.Verb, report func(wire.Progress), do func(ctx context.Context, report func(wire.Progress)) error) error {
	op, opCtx, err := d.begin(ctx, ws, v)
	if err != nil {
		return err
	}
	r := &reporter{to: report}
	defer r.leave()
	go func() {
		defer d.ops.Done()
		d.log.Info("verb begins", "verb", v, "workspace", ws.ID)
		op.err = do(opCtx, r.report)
		d.log.Info("verb ends", "verb", v, "workspace", ws.ID, "error", op.err)
		op.cancel()
		d.mu.Lock()
		if e := d.entries[ws.ID]; e != nil && e.op == op {
			e.op = nil
		}
		d.mu.Unlock()
		close(op.done)
		d.changed()
	}()
	select {
	case <-op.done:
		return op.err
	case <-ctx.Done():
		return problem.Wrap(problem.Interrupted, ctx.Err(), fmt.Sprintf("%s %q goes on without you", v, ws.Name), "bromure-cli vm ls")
	}
}

// begin makes the operation of an allowed verb. A kill, and a stop during a start, end the
// operation under way first.
func (d *Daemon) begin(ctx context.Context, ws vm.Workspace, v verb.Verb) (*operation, context.Context, error) {
	for {
		d.mu.Lock()
		if d.closing {
			d.mu.Unlock()
			return nil, nil, errClosing
		}
		if err := d.status(ws.ID).Allows(v, ws.Name); err != nil {
			d.mu.Unlock()
			return nil, nil, err
		}
		if v == verb.Start && d.removing > 0 {
			d.mu.Unlock()
			return nil, nil, problem.New(problem.Refused, fmt.Sprintf("start %q: base images are being removed", ws.Name), "Try again in a moment.")
		}
		e := d.entryOf(ws.ID)
		if e.op == nil {
			opCtx, cancel := context.WithCancel(d.life)
			op := &operation{verb: v, cancel: cancel, done: make(chan struct{})}
			e.op = op
			d.ops.Add(1)
			d.mu.Unlock()
			return op, opCtx, nil
		}
		other := e.op
		d.mu.Unlock()
		switch {
		case v == verb.Kill, v == verb.Stop && other.verb == verb.Start:
			other.cancel()
		default:
			return nil, nil, problem.New(problem.Refused,
				fmt.Sprintf("%s %q: a %s is under way", v, ws.Name, other.verb), "Wait for it: bromure-cli vm ls")
		}
		select {
		case <-other.done:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
		// A start that was cut short leaves nothing running: then the verb has what it wanted.
		if d.stateOf(ws.ID) != vm.Running && other.verb == verb.Start {
			return nil, nil, errAlreadyDone
		}
		if v == verb.Kill && other.verb != verb.Start && !d.live(ws.ID) {
			return nil, nil, errAlreadyDone
		}
	}
}

// errAlreadyDone: another operation has done what this verb was to do.
var errAlreadyDone = errors.New("already done")

var errClosing = problem.New(problem.Unreachable, "the daemon is leaving", "Try again: a new one is started on demand.")

func (d *Daemon) stateOf(id vm.ID) vm.State {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.entries[id]; e != nil {
		return e.state
	}
	return vm.Off
}

func (d *Daemon) live(id vm.ID) bool {
	s := d.stateOf(id)
	return s != vm.Off && s != vm.Broken
}

func (d *Daemon) setState(id vm.ID, s vm.State) {
	d.mu.Lock()
	d.entryOf(id).state = s
	d.mu.Unlock()
	d.changed()
}
