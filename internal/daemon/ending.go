package daemon

import (
	"os"

	"bromure.io/tui/internal/failpoint"
	"bromure.io/tui/vm"
)

// gone puts down that a machine has ended by itself or was ended: the lock is free, and the
// workspace is off, or broken when nobody asked for the end.
func (d *Daemon) gone(m *machine) {
	m.mu.Lock()
	asked := m.asked
	m.mu.Unlock()
	failpoint.Here("machine: gone")
	m.logs.note("machine: gone")
	m.Close()
	if err := os.RemoveAll(string(m.spec.Dir)); err != nil {
		d.log.Warn("remove a machine's sockets", "workspace", m.ws.ID, "error", err)
	}
	failpoint.Here("runtime directory: removed")
	var failure *vm.Failure
	if !asked {
		failure = &vm.Failure{
			Step: "running",
			Err:  "the machine ended by itself",
			Hint: "See why: bromure-cli vm logs --kind machine " + m.ws.ID.Short() + " (and --kind serial); start it again with bromure-cli vm run.",
			At:   d.now(),
		}
	}
	d.log.Info("machine gone", "workspace", m.ws.ID, "asked", asked)
	if d.machineOf(m.ws.ID) == m {
		d.off(m.ws.ID, failure)
	}
	d.discard(m.ws.ID)
	close(m.ended)
}

// restarting: the guest reset itself; its machine lives on.
func (d *Daemon) restarting(m *machine) {
	m.mu.Lock()
	m.asked = false // an earlier request to power off did not end in one
	m.stats, m.ports = nil, nil
	m.mu.Unlock()
	if l := m.link.Load(); l != nil {
		l.Close()
	}
	d.setStateIf(m, vm.Starting)
}

// answering: the guest answers again.
func (d *Daemon) answering(m *machine) { d.setStateIf(m, vm.Running) }

// setStateIf changes the state of a workspace unless another machine has taken m's place.
func (d *Daemon) setStateIf(m *machine, s vm.State) {
	d.mu.Lock()
	if e := d.entries[m.ws.ID]; e != nil && e.machine == m {
		e.state = s
	}
	d.mu.Unlock()
	d.changed()
}
