package daemon

import (
	"context"
	"time"

	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/disk"
)

// changed marks the snapshot as out of date.
func (d *Daemon) changed() {
	select {
	case d.dirty <- struct{}{}:
	default:
	}
}

// publishLoop makes a new snapshot after a change, at most twenty a second.
func (d *Daemon) publishLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.dirty:
		}
		d.publish()
		select {
		case <-ctx.Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (d *Daemon) publish() {
	s := wire.Snapshot{
		Now:     d.now(),
		Health:  d.Health(),
		Backend: d.backend.Name(),
	}
	if free, err := disk.Free(string(d.opts.Root)); err == nil {
		s.FreeBytes = free
	}
	entries, err := d.store.List()
	if err != nil {
		d.log.Error("list the workspaces", "error", err)
	}
	for _, e := range entries {
		s.Workspaces = append(s.Workspaces, d.view(e.Workspace, e.Err))
	}
	d.mu.Lock()
	s.Capabilities, s.Closing = d.caps, d.closing
	d.mu.Unlock()
	d.hub.Publish(s)
}

// view is one workspace as fronts see it; invalid is why its settings cannot be used.
func (d *Daemon) view(ws vm.Workspace, invalid error) wire.Workspace {
	v := wire.Workspace{Workspace: ws, State: vm.Off, Dir: string(d.opts.Root.Workspace(string(ws.ID)))}
	if invalid != nil {
		v.State, v.Invalid = vm.Broken, invalid.Error()
	}
	dir := d.opts.Root.Workspace(string(ws.ID))
	shares := ws.CloneKind == string(disk.Reflink) || ws.CloneKind == string(disk.Clonefile)
	if u, err := d.usage.of(dir.Disk(), shares); err == nil {
		v.DiskOwn = u.Own()
	}
	if u, err := d.usage.of(dir.Home(), false); err == nil {
		v.HomeOwn = u.Own()
	}
	mark, err := d.store.Compromise(ws.ID)
	if err != nil {
		mark = &vm.Compromise{Reason: err.Error()}
	}
	v.Compromise = mark
	if st, err := d.store.MachineState(ws.ID); err == nil {
		v.Failure = st.Failure
	}

	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.entries[ws.ID]; e != nil {
		v.State, v.Steps = e.state, e.steps
		if m := e.machine; m != nil {
			rec := m.vmm.Record()
			v.Started, v.Accelerator = rec.Started, rec.Accelerator
			v.Refused = int(m.refused.Load())
			if m.starved.Load() {
				v.Notice = "it stands still: the host's disk is full; it goes on once there is room"
			}
			m.mu.Lock()
			v.Stats, v.Ports, v.Consoles = m.stats, m.ports, m.consoles
			m.mu.Unlock()
		}
	}
	switch {
	case v.State == vm.Off && v.Failure != nil:
		v.State = vm.Broken
	case v.State != vm.Broken:
		v.Failure = nil
	}
	return v
}
