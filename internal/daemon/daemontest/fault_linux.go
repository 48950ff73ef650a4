package daemontest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"

	"bromure.io/tui/vm/store"
)

// Result is what came of cutting one operation at each of its steps.
type Result struct {
	Operation string
	Steps     []string // the names of its fail points, in their order
	Injected  int      // at how many of them it was cut
	Before    int      // how often the state afterwards was the one before,
	After     int      // the one after,
	Between   int      // or had some of the things that it makes, each of them whole
	Same      bool     // before and after are the same: nothing is left of the operation
	Losses    []string // what was wrong: must be empty
}

// Table is the results as text.
func Table(results []Result) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "operation\tsteps\tinjected\tbefore\tbetween\tafter\tlosses")
	var sum Result
	for _, r := range results {
		before := strconv.Itoa(r.Before)
		if r.Same {
			before = "="
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%d\t%d\t%d\n", r.Operation, len(r.Steps), r.Injected, before, r.Between, r.After, len(r.Losses))
		sum.Steps = append(sum.Steps, r.Steps...)
		sum.Injected += r.Injected
		sum.Before += r.Before
		sum.Between += r.Between
		sum.After += r.After
		sum.Losses = append(sum.Losses, r.Losses...)
	}
	fmt.Fprintf(w, "all\t%d\t%d\t%d\t%d\t%d\t%d\n", len(sum.Steps), sum.Injected, sum.Before, sum.Between, sum.After, len(sum.Losses))
	_ = w.Flush()
	return b.String()
}

// Inject cuts an operation at every step-th of its steps (1: at all), some at the same time. An error means that the harness
// itself could not do its work.
func Inject(op Operation, every, parallel int) (Result, error) {
	r := Result{Operation: op.Name}
	before, err := op.observe(cutNever)
	if err != nil {
		return r, fmt.Errorf("%s: the state before: %w", op.Name, err)
	}
	after, err := op.observe(cutAfter)
	if err != nil {
		return r, fmt.Errorf("%s: the state after: %w", op.Name, err)
	}
	for _, loss := range slices.Concat(before.losses, after.losses) {
		r.Losses = append(r.Losses, op.Name+", uncut: "+loss)
	}
	r.Steps = after.steps
	r.Same = len(differences(before.tree, after.tree)) == 0

	found := make([]observed, len(r.Steps))
	errs := make([]error, len(r.Steps))
	slots := make(chan struct{}, parallel)
	var wg sync.WaitGroup
	for n := 0; n < len(r.Steps); n += every {
		r.Injected++
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			found[n], errs[n] = op.observe(n + 1)
		})
	}
	wg.Wait()
	for n := 0; n < len(r.Steps); n += every {
		at := fmt.Sprintf("%s, cut at step %d of %d (%s): ", op.Name, n+1, len(r.Steps), r.Steps[n])
		if errs[n] != nil {
			return r, fmt.Errorf("%s%w", at, errs[n])
		}
		state, wrong := classify(before.tree, after.tree, found[n].tree, op.Things)
		switch state {
		case isBefore:
			r.Before++
		case isAfter:
			r.After++
		case isBetween:
			r.Between++
		}
		for _, loss := range append(wrong, found[n].losses...) {
			r.Losses = append(r.Losses, at+loss)
		}
	}
	return r, nil
}

// Where an operation is cut, if not at a step, which count from 1.
const (
	cutNever = -1 // it is not begun
	cutAfter = 0  // everything is killed when it is done
)

// observed is what a daemon found that started after everything was killed.
type observed struct {
	tree   Tree
	losses []string
	steps  []string // with cutAfter: the fail points that the operation passed
}

// observe lets an operation run in a new place up to a step, kills everything, starts a daemon again and looks.
func (op Operation) observe(cut int) (o observed, err error) {
	p, err := NewPlace()
	if err != nil {
		return o, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(p.Dir)) }()
	if err := p.furnish(); err != nil {
		return o, err
	}
	if err := op.Prepare(p); err != nil {
		return o, fmt.Errorf("prepare: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if o.steps, err = op.run(ctx, p, cut); err != nil {
		return o, err
	}
	next, err := p.Spawn("")
	for op.Ends && err != nil && strings.Contains(err.Error(), "uninstall that was cut short") {
		next, err = p.Spawn("") // it has finished the uninstall and left, as it says
	}
	if err != nil {
		return o, fmt.Errorf("start a daemon afterwards: %w", err)
	}
	defer next.Kill()
	if o.tree, o.losses, err = p.look(ctx, next); err != nil {
		return o, err
	}
	losses, err := p.useUp(ctx, next)
	o.losses = append(o.losses, losses...)
	if why := next.died(); why != "" {
		o.losses = append(o.losses, why)
	}
	return o, err
}

// furnish makes what every operation finds.
func (p *Place) furnish() error {
	for n, release := range []string{"1", "2"} {
		if _, err := p.AddImage(release, Epoch().AddDate(0, 0, n)); err != nil {
			return err
		}
	}
	ws, err := p.AddWorkspace(store.NewWorkspace{Name: bystander, Notes: "not to be touched"})
	if err == nil {
		_, err = p.Fill(ws)
	}
	return err
}

// run runs the operation and kills the daemon: at a step, or when it is done.
func (op Operation) run(ctx context.Context, p *Place, cut int) (steps []string, err error) {
	log := filepath.Join(p.Dir, "steps")
	arm := "log:" + log
	if cut > 0 {
		arm = strconv.Itoa(cut)
	}
	var pr *Process
	if op.Do == nil {
		switch {
		case cut == cutNever:
			return nil, nil
		case cut > 0:
			if pr, err = p.spawn(arm); err == nil {
				err = pr.Killed(ctx)
			}
			return nil, err
		}
		if pr, err = p.Spawn(arm); err != nil {
			return nil, err
		}
		pr.Kill()
		return readSteps(log)
	}
	if pr, err = p.Spawn(""); err != nil {
		return nil, err
	}
	defer pr.Kill()
	if op.Boot != nil {
		if err := op.Boot(ctx, pr); err != nil {
			return nil, fmt.Errorf("boot: %w%s", err, pr.died())
		}
	}
	if cut == cutNever {
		return nil, nil
	}
	if err := pr.Arm(arm); err != nil {
		return nil, fmt.Errorf("arm: %w", err)
	}
	err = op.Do(ctx, p, pr)
	if cut > 0 {
		return nil, errors.Join(pr.Killed(ctx), nil) // what the front was told is of no matter
	}
	if op.Ends && err == nil {
		<-pr.ended
	}
	pr.Kill()
	if err != nil {
		return nil, fmt.Errorf("do: %w", err)
	}
	return readSteps(log)
}

func readSteps(path string) ([]string, error) {
	data, err := os.ReadFile(path)
	return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n"), err
}
