package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"bromure.io/tui/internal/boot"
	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/link"
	"bromure.io/tui/vm/store"
)

// adoptAll looks at what an earlier daemon left: machines that run on are adopted, records of machines
// that are gone are cleared, and directories that belong to no machine are removed. It waits for no guest.
func (d *Daemon) adoptAll() {
	entries, err := d.store.List()
	if err != nil {
		d.log.Error("list the workspaces", "error", err)
	}
	for _, e := range entries {
		if e.Err != nil {
			continue // shown in the list with its error
		}
		if err := d.adoptOne(e.Workspace); err != nil {
			d.log.Error("adopt a machine", "workspace", e.Workspace.ID, "error", err)
			d.off(e.Workspace.ID, &vm.Failure{
				Step: "adopt", Err: err.Error(), At: d.now(),
				Hint: "Something still holds its lock: " + d.opts.Root.Workspace(string(e.Workspace.ID)).Lock(),
			})
		}
	}
	d.sweepRuntime()
}

// adoptOne takes over the machine of one workspace, if it has one.
func (d *Daemon) adoptOne(ws vm.Workspace) error {
	st, err := d.store.MachineState(ws.ID)
	if err != nil {
		d.log.Warn("read the state of a workspace", "workspace", ws.ID, "error", err)
		st = store.MachineState{}
	}
	lock, err := d.store.Lock(ws.ID)
	if err == nil {
		// Nobody holds it, so no machine runs, whatever the record says.
		lock.Unlock()
		if ws.Throwaway != "" {
			d.discard(ws.ID)
			return nil
		}
		if st.Machine != nil {
			d.log.Info("a machine ended while no daemon ran", "workspace", ws.ID)
			return d.store.ClearMachine(ws.ID, nil)
		}
		return nil
	}
	if !errors.Is(err, vm.ErrLocked) {
		return err
	}
	spec := d.adoptedSpec(ws, st)
	rec, err := d.recordOf(ws.ID, st)
	if err != nil {
		return fmt.Errorf("the lock is held, but not by a machine of ours: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	vmm, err := d.backend.Adopt(ctx, spec, rec)
	if errors.Is(err, vm.ErrGone) {
		return fmt.Errorf("the lock is held, but not by a machine of ours: %w", err)
	}
	if err != nil {
		return err
	}
	spec.Accelerator = vmm.Record().Accelerator
	keys, err := readKeys(spec)
	if err != nil {
		d.log.Error("read the keys of a machine; it can only be killed", "workspace", ws.ID, "error", err)
	}
	m, err := d.newMachine(ws, spec, keys, vmm, false)
	if err != nil {
		return errors.Join(err, vmm.Release())
	}
	if st.Machine == nil {
		if err := d.store.SetMachine(ws.ID, vmm.Record(), spec); err != nil {
			d.log.Error("record an adopted machine", "workspace", ws.ID, "error", err)
		}
	}
	d.log.Info("machine adopted", "workspace", ws.ID, "pid", vmm.Record().PID)
	d.mu.Lock()
	e := d.entryOf(ws.ID)
	e.machine, e.state = m, vm.Starting
	e.steps = []wire.Step{{Name: "adopt", Done: true}}
	d.mu.Unlock()
	m.begin()
	if ws.Throwaway == vm.Attached {
		// Its front lost the connection together with the last daemon.
		go d.frontGone(ws.ID)
		return nil
	}
	go d.expectAnswer(m)
	return nil
}

// expectAnswer marks an adopted machine as broken when its guest does not answer in time. It is not killed:
// what runs in it may matter to the user, who can.
func (d *Daemon) expectAnswer(m *machine) {
	err := m.awaitLink(m.life, nil, d.opts.Deadlines)
	if err == nil || m.life.Err() != nil {
		return
	}
	d.mu.Lock()
	e := d.entries[m.ws.ID]
	if e != nil && e.machine == m && e.state == vm.Starting {
		e.steps = append(e.steps[:len(e.steps):len(e.steps)], wire.Step{Name: boot.StepGuest, Note: err.Error()})
	}
	d.mu.Unlock()
	m.logs.note("adopted, but: %v", err)
	d.changed()
}

// adoptedSpec is the spec of a machine that runs: what a daemon still needs of it.
func (d *Daemon) adoptedSpec(ws vm.Workspace, st store.MachineState) vm.Spec {
	dir := d.opts.Root.Workspace(string(ws.ID))
	spec := vm.Spec{Workspace: ws, Disk: dir.Disk(), Home: dir.Home(), Dir: st.Dir, Log: dir.Log("machine")}
	if spec.Dir == "" {
		spec.Dir = d.opts.Runtime.Machine(string(ws.ID))
	}
	spec.Initrd = spec.Dir.Initrd()
	return spec
}

// recordOf is the record of a machine that runs. There is none when the daemon was killed before it could write it
// down; then the backend may find the machine by the lock that it holds.
func (d *Daemon) recordOf(id vm.ID, st store.MachineState) (vm.Record, error) {
	if st.Machine != nil {
		return *st.Machine, nil
	}
	b, ok := d.backend.(interface {
		Find(id vm.ID, lockPath string) (vm.Record, error)
	})
	if !ok {
		return vm.Record{}, vm.ErrGone
	}
	return b.Find(id, d.opts.Root.Workspace(string(id)).Lock())
}

func readKeys(spec vm.Spec) (link.Keys, error) {
	var keys link.Keys
	data, err := os.ReadFile(spec.Dir.Keys())
	if err == nil {
		err = json.Unmarshal(data, &keys)
	}
	return keys, err
}

// sweepRuntime removes the runtime directories of machines that are gone.
func (d *Daemon) sweepRuntime() {
	d.mu.Lock()
	keep := map[string]bool{}
	for id, e := range d.entries {
		if e.machine != nil || e.op != nil {
			keep[id.Short()] = true
		}
	}
	d.mu.Unlock()
	entries, err := os.ReadDir(d.opts.Runtime.Machines())
	if err != nil {
		return // none yet
	}
	for _, e := range entries {
		if keep[e.Name()] {
			continue
		}
		dir := d.opts.Runtime.Machines() + "/" + e.Name()
		d.log.Info("remove what a machine left", "dir", dir)
		if err := os.RemoveAll(dir); err != nil {
			d.log.Warn("remove what a machine left", "error", err)
		}
	}
}
