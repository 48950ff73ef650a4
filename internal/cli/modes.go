package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// modeTracker watches a guest's output for terminal modes that would hinder the user's shell after
// detaching from the middle of a program: the alternate screen, mouse reports, a hidden cursor. Numbers are
// those of xterm's control sequences (DECSET).
type modeTracker struct {
	mu    sync.Mutex
	on    map[int]bool // modes that differ from a fresh terminal
	kitty int          // pushed levels of the kitty keyboard protocol
	other bool         // xterm's modifyOtherKeys
	seq   []byte       // a sequence that has begun
}

// sticky are the modes that are undone, with their state on a fresh terminal.
func sticky(mode int) (fresh, ok bool) {
	switch mode {
	case 7, 25: // wrap around, cursor shown
		return true, true
	case 1, // application cursor keys
		9, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1015, 1016, // mouse, focus
		66,             // application keypad
		47, 1047, 1049, // alternate screen
		2004, 2026: // bracketed paste, synchronised output
		return false, true
	}
	return false, false
}

// maxSequence bounds what is kept of an unfinished sequence.
const maxSequence = 64

func (m *modeTracker) see(p []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range p {
		switch {
		case b == 0x1b:
			m.seq = append(m.seq[:0], b)
		case len(m.seq) == 0:
		case len(m.seq) == 1:
			switch b {
			case '[':
				m.seq = append(m.seq, b)
			case 'c': // RIS: as fresh
				m.on, m.kitty, m.other, m.seq = nil, 0, false, m.seq[:0]
			default:
				m.seq = m.seq[:0]
			}
		case b >= 0x40 && b <= 0x7e: // the final byte
			m.finish(string(m.seq[2:]), b)
			m.seq = m.seq[:0]
		case b < 0x20 || len(m.seq) >= maxSequence:
			m.seq = m.seq[:0]
		default:
			m.seq = append(m.seq, b)
		}
	}
}

// finish sees a whole control sequence: its parameters and its final byte.
func (m *modeTracker) finish(params string, final byte) {
	mark := byte(0)
	if params != "" && strings.IndexByte("?><=", params[0]) >= 0 {
		mark, params = params[0], params[1:]
	}
	switch {
	case mark == '?' && (final == 'h' || final == 'l'):
		for _, p := range strings.Split(params, ";") {
			var mode int
			if _, err := fmt.Sscanf(p, "%d", &mode); err == nil {
				m.set(mode, final == 'h')
			}
		}
	case mark == '>' && final == 'u':
		m.kitty = min(m.kitty+1, 16)
	case mark == '<' && final == 'u':
		n := 1
		_, _ = fmt.Sscanf(params, "%d", &n)
		m.kitty = max(0, m.kitty-max(1, n))
	case mark == '>' && final == 'm':
		m.other = strings.HasPrefix(params, "4;") && params != "4;0"
	case mark == 0 && final == 'p' && params == "!": // DECSTR, soft reset
		for mode := range m.on {
			if mode == 1 || mode == 7 || mode == 25 {
				delete(m.on, mode)
			}
		}
	}
}

func (m *modeTracker) set(mode int, on bool) {
	fresh, ok := sticky(mode)
	if !ok {
		return
	}
	if on == fresh {
		delete(m.on, mode)
		return
	}
	if m.on == nil {
		m.on = map[int]bool{}
	}
	m.on[mode] = on
}

// undo is what makes a terminal fresh again. It is empty if nothing stuck.
func (m *modeTracker) undo() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b strings.Builder
	if m.kitty > 0 {
		fmt.Fprintf(&b, "\x1b[<%du", m.kitty)
	}
	if m.other {
		b.WriteString("\x1b[>4m")
	}
	for _, mode := range slices.Sorted(maps.Keys(m.on)) {
		if fresh, _ := sticky(mode); fresh {
			fmt.Fprintf(&b, "\x1b[?%dh", mode)
		} else {
			fmt.Fprintf(&b, "\x1b[?%dl", mode)
		}
	}
	if b.Len() > 0 {
		b.WriteString("\x1b[0m")
	}
	m.on, m.kitty, m.other = nil, 0, false
	return b.String()
}
