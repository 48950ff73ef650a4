package console

import (
	"bytes"
	"io"
	"os"
	"sync"
	"testing"
	"time"

	"bromure.io/tui/vm/guest"
)

// fake is a program whose output the test writes. Reading and writing block as on a terminal.
type fake struct {
	r     *io.PipeReader
	w     *io.PipeWriter
	ended chan struct{}
	once  sync.Once

	mu    sync.Mutex
	typed bytes.Buffer
	sizes []guest.Size
}

func newFake() *fake {
	f := &fake{ended: make(chan struct{})}
	f.r, f.w = io.Pipe()
	return f
}

func (f *fake) Read(b []byte) (int, error) { return f.r.Read(b) }
func (f *fake) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.typed.Write(b)
}
func (f *fake) SetReadDeadline(time.Time) error { return nil }
func (f *fake) Resize(s guest.Size) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sizes = append(f.sizes, s)
	return nil
}
func (f *fake) Signal(int) error { return nil }
func (f *fake) Wait() guest.Exit { <-f.ended; return guest.Exit{Code: 7} }
func (f *fake) Hangup()          { f.exit() }
func (f *fake) Close()           { f.r.CloseWithError(os.ErrClosed) }
func (f *fake) exit()            { f.once.Do(func() { f.w.Close(); close(f.ended) }) }
func (f *fake) print(s string)   { _, _ = io.WriteString(f.w, s) }

func (f *fake) start() (Program, string, error) { return f, "fake", nil }

// out is a client's end. A gate, where there is one, holds up its writes.
type out struct {
	mu   sync.Mutex
	buf  bytes.Buffer
	gate chan struct{}
}

func (o *out) Write(b []byte) (int, error) {
	if o.gate != nil {
		<-o.gate
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *out) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func attach(t *testing.T, s *Set, f *fake, o io.Writer) *Client {
	t.Helper()
	cl, err := s.Attach("main", guest.Size{Cols: 80, Rows: 24}, o, f.start)
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

// fresh is what a client of a console without output gets.
func fresh() string { return softResetSequence + string((&screen{}).restore()) }

func bits(modes ...int) (b uint32) {
	for i, n := range modeNumbers {
		for _, m := range modes {
			if n == m {
				b |= 1 << i
			}
		}
	}
	return b
}

func (p stubborn) Write([]byte) (int, error) { <-p.closed; return 0, os.ErrClosed }
func (p stubborn) Close()                    { p.fake.Close(); close(p.closed) }
