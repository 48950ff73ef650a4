package cli

import (
	"os"
	"sync"

	"golang.org/x/term"

	"bromure.io/tui/vm/guest"
)

// terminal is the user's terminal in raw mode: every key goes to the guest.
type terminal struct {
	fd int

	mu    sync.Mutex
	saved *term.State // nil: it is as it was
}

func makeRaw(f *os.File) (*terminal, error) {
	t := &terminal{fd: int(f.Fd())}
	return t, t.raw()
}

// raw is for the beginning, and for after the program was stopped and goes on: the shell has set modes of its own.
func (t *terminal) raw() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.saved != nil {
		return nil
	}
	saved, err := term.MakeRaw(t.fd)
	t.saved = saved
	return err
}

// restore may be called more than once, from any goroutine.
func (t *terminal) restore() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.saved != nil {
		_ = term.Restore(t.fd, t.saved) // fails only when the terminal is gone
		t.saved = nil
	}
}

// guard runs f in a goroutine whose panic leaves the terminal usable.
func (t *terminal) guard(f func()) {
	go func() {
		defer func() {
			if r := recover(); r != nil {
				t.restore()
				panic(r)
			}
		}()
		f()
	}()
}

// windowSize is the size of the user's terminal.
func (a *app) windowSize() guest.Size {
	for _, f := range []*os.File{a.Out, a.In, a.Err} {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 && h > 0 {
			return guest.Size{Cols: w, Rows: h}
		}
	}
	return guest.Size{Cols: 80, Rows: 24}
}
