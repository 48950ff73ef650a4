package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bromure.io/tui/internal/control"
	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/internal/verb"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/guest"
)

// throwawayEnd is how long the front waits until its throw-away workspace is gone.
const throwawayEnd = 30 * time.Second

// runThrowaway runs a command or a console in a workspace that is gone afterwards. The daemon holds the
// workspace for as long as this process holds a lease, so that it goes however this process ends.
func (a *app) runThrowaway(ctx context.Context, c *control.Client, o runOptions, exec *guest.Exec, terminals bool) (err error) {
	console := exec == nil && terminals && !o.noTTY
	if exec == nil && !console && !o.detach {
		return problem.New(problem.Usage, "there is neither a command nor a terminal", "Give it a command, or -d to only start it.")
	}
	o.create.Throwaway = vm.Attached
	if o.detach {
		o.create.Throwaway = vm.Detached
	}
	w, err := c.Create(ctx, o.create)
	if err != nil {
		return err
	}
	ref := string(w.ID)
	if o.detach {
		return a.runDetached(ctx, c, ref, o)
	}
	// The lease outlives ctx: the end of a signal is the orderly end below.
	release, err := c.Lease(context.WithoutCancel(ctx), ref)
	if err != nil {
		return errors.Join(err, a.endThrowaway(c, ref))
	}
	defer release()
	if _, err := a.start(ctx, c, ref); err != nil {
		return errors.Join(err, a.endThrowaway(c, ref))
	}
	if exec != nil {
		err = a.exec(ctx, c, ref, *exec, o.interactive)
	} else {
		var detached bool
		detached, err = a.attachConsole(ctx, c, attachOptions{ref: ref, console: guest.DefaultConsole, keys: defaultDetachKeys})
		if detached { // it goes on, and is deleted when its machine stops
			_, err := a.do(ctx, c, wire.Do{Verb: string(verb.Keep), Workspace: ref})
			return err
		}
	}
	if end := a.endThrowaway(c, ref); end != nil {
		return errors.Join(err, end)
	}
	return err
}

// runDetached only starts it: its machine's end is what deletes it.
func (a *app) runDetached(ctx context.Context, c *control.Client, ref string, o runOptions) error {
	w, err := a.start(ctx, c, ref)
	if err != nil {
		return err
	}
	if len(o.argv) > 0 {
		// As with Docker it ends with its command: the machine turns itself off, and with that it is gone.
		argv := append([]string{"sh", "-c", `"$@"; sudo -n systemctl poweroff`, runConsole}, o.argv...)
		if err := a.execDetached(ctx, c, ref, argv, o.streamFlags); err != nil {
			return errors.Join(err, a.endThrowaway(c, ref))
		}
	}
	if a.json() {
		return a.printJSON(w)
	}
	_, err = fmt.Fprintln(a.Out, w.ID.Short())
	return err
}

// endThrowaway ends the machine, with which the workspace goes, and waits until it is gone.
func (a *app) endThrowaway(c *control.Client, ref string) error {
	ctx, cancel := context.WithTimeout(context.Background(), throwawayEnd)
	defer cancel()
	_, err := c.Do(ctx, wire.Do{Verb: string(verb.Kill), Workspace: ref}, nil)
	switch problem.KindOf(err) {
	case problem.NotFound:
		return nil
	case problem.Refused: // it has ended by itself, or never ran
		p, perr := c.Plan(ctx, wire.PlanRequest{Verb: verb.Delete, Subject: ref})
		if problem.KindOf(perr) == problem.NotFound {
			return nil
		}
		if perr == nil {
			_, perr = c.Do(ctx, wire.Do{Plan: p.ID}, nil)
		}
		if problem.KindOf(perr) == problem.NotFound {
			return nil
		}
		return perr
	}
	return err
}
