package daemon

import (
	"errors"
	"io/fs"
	"os"

	"bromure.io/tui/internal/atomicfile"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/vm/netstack"
)

// segmentConfig is the workspace's private segment: closed, until there is a proxy to let something through.
func (m *machine) segmentConfig() netstack.Config {
	return netstack.Config{
		GuestMAC: string(m.ws.MAC),
		Names:    m.loadNames(),
		Refused: func(r netstack.Refusal) {
			m.refused.Add(max(1, int64(r.Count)))
			m.logs.refusal(r)
			m.d.changed()
		},
		Log: m.d.log,
	}
}

// loadNames reads the table of synthetic addresses. One that cannot be read is begun anew: programs that
// kept an old address over a restart look the name up again.
func (m *machine) loadNames() *netstack.Names {
	path := m.d.opts.Root.Workspace(string(m.ws.ID)).Names()
	names := netstack.NewNames()
	data, err := os.ReadFile(path)
	if err == nil {
		err = names.Load(data)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.d.log.Warn("read the table of names", "workspace", m.ws.ID, "error", err)
		names = netstack.NewNames()
	}
	if m.fresh {
		names.NewBoot() // no program of an earlier boot is left that could hold on to an old address
	}
	names.Persist(m.writeNames)
	return names
}

func (m *machine) saveNames() {
	data, err := m.seg.Names().Marshal()
	if err != nil {
		m.d.log.Warn("keep the table of names", "workspace", m.ws.ID, "error", err)
		return
	}
	m.writeNames(data)
}

func (m *machine) writeNames(data []byte) {
	path := m.d.opts.Root.Workspace(string(m.ws.ID)).Names()
	if err := atomicfile.Write(path, data, layout.FileMode); err != nil {
		m.d.log.Warn("keep the table of names", "workspace", m.ws.ID, "error", err)
	}
}
