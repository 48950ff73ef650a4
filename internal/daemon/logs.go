package daemon

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"bromure.io/tui/internal/failpoint"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/ring"
	"bromure.io/tui/vm/guest"
	"bromure.io/tui/vm/netstack"
)

// Sizes of the rings, in bytes on disk.
const (
	serialRing   = 2 << 20
	guestRing    = 256 << 10
	refusalsRing = 2 << 20
	daemonRing   = 4 << 20
)

// logs are the rings of one workspace while its machine runs.
type logs struct{ serial, guest, refusals *ring.Writer }

func openLogs(dir layout.WorkspaceDir) (*logs, error) {
	if err := os.MkdirAll(dir.Logs(), layout.DirMode); err != nil {
		return nil, err
	}
	l := &logs{}
	for _, r := range []struct {
		to   **ring.Writer
		kind layout.LogKind
		size int64
	}{{&l.serial, layout.SerialLog, serialRing}, {&l.guest, layout.GuestLog, guestRing}, {&l.refusals, layout.RefusalsLog, refusalsRing}} {
		w, err := ring.Open(dir.Log(r.kind), r.size)
		if err != nil {
			l.close()
			return nil, fmt.Errorf("open the %s log: %w", r.kind, err)
		}
		*r.to = w
		failpoint.Here("log: " + string(r.kind) + " opened")
	}
	return l, nil
}

func (l *logs) close() {
	for _, w := range []*ring.Writer{l.serial, l.guest, l.refusals} {
		if w != nil {
			w.Close()
		}
	}
}

// note writes a line of ours into the guest log.
func (l *logs) note(format string, args ...any) {
	fmt.Fprintf(l.guest, "%s %s\n", time.Now().UTC().Format(time.RFC3339Nano), fmt.Sprintf(format, args...))
}

// refusal writes one refused connection as a JSON line.
func (l *logs) refusal(r netstack.Refusal) {
	if b, err := json.Marshal(r); err == nil {
		l.refusals.Write(append(b, '\n'))
	}
}

// readSerial copies the serial console into its ring and picks out the lines that the guest program
// means for us. Whatever the guest prints, memory stays bounded and the console is never held up.
func (m *machine) readSerial() {
	buf := make([]byte, 32<<10)
	line := make([]byte, 0, guest.MaxLine)
	serial := m.vmm.Serial()
	for {
		n, err := serial.Read(buf)
		m.logs.serial.Write(buf[:n])
		for _, c := range buf[:n] {
			switch {
			case c == '\n':
				m.sawLine(string(line))
				line = line[:0]
			case len(line) < cap(line):
				line = append(line, c)
			}
		}
		if err != nil {
			return
		}
	}
}

func (m *machine) sawLine(s string) {
	l, ok := guest.ParseLine(s)
	if !ok {
		return
	}
	if l.Err != "" {
		m.logs.note("%s failed: %s", l.Step, l.Err)
	} else {
		m.logs.note("%s after %v", l.Step, l.Uptime)
	}
	select {
	case m.lines <- l:
	default: // nobody waits for a boot
	}
}
