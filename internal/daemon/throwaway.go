package daemon

import (
	"context"
	"fmt"

	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/failpoint"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/internal/verb"
	"bromure.io/tui/vm"
)

// A throw-away workspace (vm run --rm) is deleted when its machine stops, whatever stopped it, and an attached one when
// its front is gone. What a crash leaves is deleted by the next daemon.

// Lease ties an attached throw-away to a front.
func (d *Daemon) Lease(_ context.Context, ref string) (func(gone bool), error) {
	ws, err := d.find(ref)
	if err != nil {
		return nil, err
	}
	if ws.Throwaway == "" {
		return nil, problem.New(problem.Refused, fmt.Sprintf("%q is no throw-away workspace", ws.Name), "")
	}
	return func(gone bool) {
		if gone {
			d.frontGone(ws.ID)
		}
	}, nil
}

// frontGone ends an attached throw-away whose front went away.
func (d *Daemon) frontGone(id vm.ID) {
	ws, err := d.store.Load(id)
	if err != nil || ws.Throwaway != vm.Attached {
		return // gone, or kept
	}
	d.log.Info("the front of a throw-away workspace is gone", "workspace", id)
	if d.live(id) {
		if err := d.kill(context.Background(), ws, func(wire.Progress) {}); err != nil && problem.KindOf(err) != problem.Refused {
			d.log.Error("end a throw-away machine", "workspace", id, "error", err)
		}
	}
	if !d.live(id) {
		d.discard(id) // if its machine's end has not done it
	}
}

// keep lets an attached throw-away run on without its front.
func (d *Daemon) keep(ws vm.Workspace) error {
	if ws.Throwaway == "" {
		return nil
	}
	_, err := d.store.Update(ws.ID, func(w *vm.Workspace) error {
		w.Throwaway = vm.Detached
		return nil
	})
	return err
}

// discard deletes a throw-away workspace that has no machine any more. It does nothing to any other workspace.
func (d *Daemon) discard(id vm.ID) {
	ws, err := d.store.Load(id)
	if err != nil || ws.Throwaway == "" {
		return
	}
	failpoint.Here("throw-away: to be deleted")
	if _, err := d.remover.Unasked(context.Background(), verb.Delete, string(id)); err != nil {
		d.log.Error("delete a throw-away workspace", "workspace", id, "error", err)
		return
	}
	d.forget(id)
	d.changed()
}
