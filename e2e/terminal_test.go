package e2e

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// terminal is a person at a terminal: what was printed so far, and a way to type.
type terminal struct {
	t    *testing.T
	f    *os.File
	wait func() error

	mu   sync.Mutex
	cond *sync.Cond
	text strings.Builder
	read int // how much of text was matched by expect
	eof  bool
}

func newTerminal(t *testing.T, f *os.File, wait func() error) *terminal {
	term := &terminal{t: t, f: f, wait: wait}
	term.cond = sync.NewCond(&term.mu)
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := f.Read(buf)
			term.mu.Lock()
			term.text.Write(buf[:n])
			term.eof = err != nil
			term.mu.Unlock()
			term.cond.Broadcast()
			if err != nil {
				return
			}
		}
	}()
	return term
}

func (c *terminal) send(s string) {
	c.t.Helper()
	if _, err := c.f.WriteString(s); err != nil {
		c.t.Fatalf("type %q: %v", s, err)
	}
}

// expect waits until want is printed after what was expected before.
func (c *terminal) expect(want string) {
	c.t.Helper()
	if !c.seen(want, patience) {
		c.t.Fatalf("%q was not printed in:\n%q", want, c.text.String())
	}
}

// until types line again and again until want is printed.
func (c *terminal) until(line, want string) {
	c.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		c.send(line)
		if c.seen(want, 2*time.Second) {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("%q was not printed in:\n%q", want, c.text.String())
		}
	}
}

func (c *terminal) seen(want string, within time.Duration) bool {
	late := false
	timer := time.AfterFunc(within, func() {
		c.mu.Lock()
		late = true
		c.mu.Unlock()
		c.cond.Broadcast()
	})
	defer timer.Stop()
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		all := c.text.String()
		if at := strings.Index(all[c.read:], want); at >= 0 {
			c.read += at + len(want)
			return true
		}
		if late || c.eof {
			return false
		}
		c.cond.Wait()
	}
}
