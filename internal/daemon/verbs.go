package daemon

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bromure.io/tui/internal/boot"
	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/internal/verb"
	"bromure.io/tui/vm"
)

// DefaultStopTimeout is how long a guest may take to shut down before its machine is ended.
const DefaultStopTimeout = 30 * time.Second

// killTimeout bounds the wait for a machine that was killed.
const killTimeout = 15 * time.Second

// start starts a workspace's machine.
func (d *Daemon) start(ctx context.Context, ws vm.Workspace, report func(wire.Progress)) error {
	return d.operate(ctx, ws, verb.Start, report, func(ctx context.Context, report func(wire.Progress)) error {
		d.beginSteps(ws.ID, vm.Starting)
		h := &host{d: d, id: ws.ID}
		r, err := boot.Start(ctx, h, ws, d.opts.Deadlines, func(e boot.Event) {
			d.step(ws.ID, e)
			report(wire.Progress{Step: e.Step, Finished: e.Finished, Took: e.Took, Note: e.Note})
		})
		if err != nil {
			d.startFailed(ws.ID, err)
			d.discard(ws.ID)
			return err
		}
		d.used(ws.ID)
		d.started(ws.ID, r.Guest.(*machine))
		return nil
	})
}

// beginSteps begins a new list of steps.
func (d *Daemon) beginSteps(id vm.ID, s vm.State) {
	d.mu.Lock()
	e := d.entryOf(id)
	e.state, e.steps = s, nil
	d.mu.Unlock()
	d.changed()
}

// step records the progress of a start for the snapshot.
func (d *Daemon) step(id vm.ID, ev boot.Event) {
	d.mu.Lock()
	e := d.entryOf(id)
	if n := len(e.steps); n > 0 && e.steps[n-1].Name == ev.Step && !e.steps[n-1].Done {
		e.steps = e.steps[:n-1]
	}
	// A copy: snapshots share the old slice.
	e.steps = append(e.steps[:len(e.steps):len(e.steps)], wire.Step{Name: ev.Step, Done: ev.Finished, Took: ev.Took, Note: ev.Note})
	d.mu.Unlock()
	d.changed()
}

// started puts a machine whose guest has answered into the list.
func (d *Daemon) started(id vm.ID, m *machine) {
	d.mu.Lock()
	e := d.entryOf(id)
	e.machine, e.state = m, vm.Running
	d.mu.Unlock()
	m.begin()
	d.changed()
}

// startFailed records why. A start that somebody cut short, or that was refused, is no failure.
func (d *Daemon) startFailed(id vm.ID, err error) {
	var failure *vm.Failure
	if kind := problem.KindOf(err); !errors.Is(err, context.Canceled) && kind != problem.Refused {
		failure = &vm.Failure{Step: boot.StepGuest, Err: err.Error(), Hint: problem.HintOf(err), At: d.now()}
		if se, ok := errors.AsType[*boot.StepError](err); ok {
			failure.Step, failure.Err = se.Step, se.Err.Error()
		}
	}
	d.off(id, failure)
}

// off records that a workspace has no machine, and why if that is a failure.
func (d *Daemon) off(id vm.ID, failure *vm.Failure) {
	if err := d.store.ClearMachine(id, failure); err != nil {
		d.log.Error("record that a machine is gone", "workspace", id, "error", err)
	}
	d.mu.Lock()
	e := d.entryOf(id)
	e.machine = nil
	if e.state = vm.Off; failure != nil {
		e.state = vm.Broken
	}
	d.mu.Unlock()
	d.changed()
}

// stop shuts a machine down through its guest, and ends it when the guest does not do so in time.
func (d *Daemon) stop(ctx context.Context, ws vm.Workspace, timeout time.Duration, report func(wire.Progress)) error {
	if timeout <= 0 {
		timeout = DefaultStopTimeout
	}
	err := d.operate(ctx, ws, verb.Stop, report, func(ctx context.Context, report func(wire.Progress)) error {
		m := d.machineOf(ws.ID)
		if m == nil {
			return nil // it ended by itself meanwhile
		}
		d.setState(ws.ID, vm.Stopping)
		report(wire.Progress{Step: "shut down the guest"})
		wait, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		asked := m.powerOff(wait, timeout)
		if asked == nil {
			select {
			case <-m.ended:
				return nil
			case <-wait.Done():
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		note := fmt.Sprintf("the guest did not shut down within %v", timeout)
		if asked != nil {
			note = "the guest cannot be asked: " + asked.Error()
		}
		d.log.Warn("kill a machine that does not stop", "workspace", ws.ID, "why", note)
		report(wire.Progress{Step: "kill", Note: note})
		return m.kill()
	})
	return ignoreAlreadyDone(err)
}

// kill ends a machine at once.
func (d *Daemon) kill(ctx context.Context, ws vm.Workspace, report func(wire.Progress)) error {
	err := d.operate(ctx, ws, verb.Kill, report, func(ctx context.Context, report func(wire.Progress)) error {
		m := d.machineOf(ws.ID)
		if m == nil {
			return nil
		}
		d.setState(ws.ID, vm.Stopping)
		return m.kill()
	})
	return ignoreAlreadyDone(err)
}

// reboot restarts the guest's system in its machine: through the guest, or (hard) like a reset button.
func (d *Daemon) reboot(ctx context.Context, ws vm.Workspace, hard bool, report func(wire.Progress)) error {
	return d.operate(ctx, ws, verb.Reboot, report, func(ctx context.Context, report func(wire.Progress)) error {
		m := d.machineOf(ws.ID)
		if m == nil {
			return problem.New(problem.Refused, fmt.Sprintf("reboot %q: its machine has ended", ws.Name), "Start it with: bromure-cli vm run")
		}
		report(wire.Progress{Step: "restart the guest"})
		old := m.link.Load()
		if err := m.reboot(ctx, hard); err != nil {
			return err
		}
		report(wire.Progress{Step: "wait for the guest"})
		return m.awaitLink(ctx, old, d.opts.Deadlines)
	})
}

func ignoreAlreadyDone(err error) error {
	if errors.Is(err, errAlreadyDone) {
		return nil
	}
	return err
}

func (d *Daemon) machineOf(id vm.ID) *machine {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.entries[id]; e != nil {
		return e.machine
	}
	return nil
}
