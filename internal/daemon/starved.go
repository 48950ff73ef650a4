package daemon

import (
	"context"
	"time"

	"bromure.io/tui/vm/disk"
)

// enoughRoom is how much the host's disk must have free before a machine that met a full one goes on, in bytes. With less it
// would only stop again at its next write.
const enoughRoom = 256 << 20

// waitForRoom lets a machine that met a full disk go on once there is room. Its guest has lost nothing: the write that
// failed is tried again.
func (m *machine) waitForRoom() {
	defer m.starved.Store(false)
	m.logs.note("machine: the host's disk is full; it stands still")
	m.d.log.Warn("the host's disk is full: a machine stands still", "workspace", m.ws.ID)
	m.d.changed()
	// Its guest answers nothing meanwhile, which is no reason to give the connection up.
	if l := m.link.Load(); l != nil {
		defer l.Hold()()
	}
	for {
		select {
		case <-m.life.Done():
			return
		case <-m.vmm.Done():
			return
		case <-time.After(time.Second):
		}
		if free, err := disk.Free(m.spec.Disk); err != nil || free < enoughRoom {
			continue
		}
		ctx, cancel := context.WithTimeout(m.life, askTimeout)
		err := m.vmm.Resume(ctx)
		cancel()
		m.logs.note("machine: there is room again; it goes on, error %v", err)
		if err == nil {
			m.d.changed()
			return
		}
	}
}
