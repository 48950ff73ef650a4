package console

import (
	"io"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
)

// Emulator is a terminal in memory. It is used by one goroutine at a time.
type Emulator interface {
	// Write takes in what a program printed. It never waits for anybody: answers that nobody takes are lost.
	Write(p []byte)
	// Replies are the answers to queries, to be given back to the program. It may be read by another goroutine; Close closes it.
	Replies() <-chan []byte
	Resize(cols, rows int)

	// Cell is a cell of the screen, or with a negative row of what was scrolled off (-1 is the newest line); nil: there is none.
	Cell(col, row int) *uv.Cell
	// History is how many lines were scrolled off.
	History() int
	// Cursor is where it stands; shown is whether the program wants it to be seen.
	Cursor() (col, row int, shown bool)
	// Mode says whether a private mode of DEC is set.
	Mode(mode int) bool
	Close()
}

// Modes that decide what is sent for a key, a paste or the mouse (xterm's control sequences, DECSET).
const (
	modeCursorKeys = 1
	modeAltScreen  = 1049
	modePaste      = 2004
)

// historyLines is how much is kept of what was scrolled off.
const historyLines = 5000

// maxReplies is how many answers wait: a guest can ask faster than it listens.
const maxReplies = 64

// xvt is the emulator of charmbracelet/x/vt behind our interface.
type xvt struct {
	*vt.Emulator
	modes   map[int]bool
	hidden  bool
	replies chan []byte
}

// NewEmulator makes a terminal of that size.
func NewEmulator(cols, rows int) Emulator {
	e := &xvt{Emulator: vt.NewEmulator(max(1, cols), max(1, rows)), modes: map[int]bool{}, replies: make(chan []byte, maxReplies)}
	e.SetScrollbackSize(historyLines)
	e.SetCallbacks(vt.Callbacks{
		CursorVisibility: func(visible bool) { e.hidden = !visible },
		EnableMode:       func(m ansi.Mode) { e.modes[m.Mode()] = true },
		DisableMode:      func(m ansi.Mode) { delete(e.modes, m.Mode()) },
	})
	go e.drain()
	return e
}

// drain reads the pipe that the emulator writes answers into, for else its Write blocks.
func (e *xvt) drain() {
	defer close(e.replies)
	buf := make([]byte, 1024)
	for {
		n, err := e.Emulator.Read(buf)
		if err != nil {
			return
		}
		if out := allowed(buf[:n]); len(out) > 0 {
			select {
			case e.replies <- out:
			default:
			}
		}
	}
}

func (e *xvt) Write(p []byte) { _, _ = e.Emulator.Write(p) }

func (e *xvt) Replies() <-chan []byte { return e.replies }

func (e *xvt) Resize(cols, rows int) { e.Emulator.Resize(max(1, cols), max(1, rows)) }

func (e *xvt) Cell(col, row int) *uv.Cell {
	if row < 0 {
		return e.ScrollbackCellAt(col, e.ScrollbackLen()+row)
	}
	return e.CellAt(col, row)
}

func (e *xvt) History() int {
	if e.IsAltScreen() {
		return 0
	}
	return e.ScrollbackLen()
}

func (e *xvt) Cursor() (col, row int, shown bool) {
	p := e.CursorPosition()
	return p.X, p.Y, !e.hidden
}

func (e *xvt) Mode(mode int) bool { return e.modes[mode] }

// Close ends drain. The emulator's own Close marks it closed without a lock, while drain reads that mark.
func (e *xvt) Close() {
	if pipe, ok := e.InputPipe().(io.Closer); ok {
		_ = pipe.Close()
	}
}
