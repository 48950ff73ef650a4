// Package vmtest has the contract that every machine backend passes, and a backend without
// machines that passes it too, for the tests of what is built on backends. Read contract.go for what
// a backend promises and fake.go for what a test can make the fake do.
package vmtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bromure.io/tui/internal/layout"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/guest"
	"bromure.io/tui/vm/vmtest/echo"
)

// Harness is one backend under test and a guest for it.
type Harness struct {
	// Backend starts machines.
	Backend vm.Backend

	// Next returns what a new daemon has: another backend that knows of the first one's machines only
	// what is outside of the daemon. It may be nil where machines do not survive.
	Next func() vm.Backend

	// Prepare fills in what the backend needs to boot the guest of package echo: kernel, initramfs,
	// command line, accelerator, disks. Workspace, Dir, Log and Lock are set already.
	Prepare func(t *testing.T, spec *vm.Spec)

	// Patience bounds every wait; only a failing test takes that long. Default: 60 s.
	Patience time.Duration
}

// NewSpec makes a fresh workspace's spec, as far as it does not depend on the backend. The lock is
// held by spec.Lock.
func NewSpec(t *testing.T) vm.Spec {
	t.Helper()
	dir := t.TempDir()
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, layout.FileMode)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Close() })
	if err := flock(lock); err != nil {
		t.Fatal(err)
	}
	run, err := os.MkdirTemp("", "m") // short: it holds sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(run) })
	return vm.Spec{
		Workspace: vm.Workspace{
			Version: vm.ConfigVersion, ID: vm.NewID(), Name: "contract", MAC: vm.NewMAC(),
			CPUs: 1, MemoryMiB: vm.MinMemoryMiB, HomeMiB: vm.DefaultHomeMiB,
		},
		Dir:  layout.MachineDir(run),
		Log:  filepath.Join(dir, "machine.log"),
		Lock: lock,
	}
}

// trial is one machine in a test.
type trial struct {
	t    *testing.T
	h    Harness
	spec vm.Spec
	m    vm.Machine

	serial *collector
	frames chan []byte
}

func (h Harness) spec(t *testing.T) vm.Spec {
	t.Helper()
	spec := NewSpec(t)
	h.Prepare(t, &spec)
	return spec
}

// start runs a machine and waits until its guest answers.
func (h Harness) start(t *testing.T) *trial {
	t.Helper()
	spec := h.spec(t)
	m, err := h.Backend.Start(t.Context(), spec)
	if err != nil {
		t.Fatalf("start: %v", err)
	}
	tr := h.attach(t, spec, m)
	tr.serial = collect(m.Serial())
	tr.waitSerial(guest.ProbeMarker)
	tr.reach("hello")
	return tr
}

// attach takes the machine's frames; its console is for the caller to read.
func (h Harness) attach(t *testing.T, spec vm.Spec, m vm.Machine) *trial {
	t.Helper()
	tr := &trial{t: t, h: h, spec: spec, m: m, frames: make(chan []byte, 64)}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), h.patience())
		defer cancel()
		if err := m.Kill(ctx); err != nil {
			select {
			case <-m.Done(): // killed by another one after a release
			default:
				t.Logf("kill in the end: %v", err)
			}
		}
	})
	go func() {
		defer close(tr.frames)
		buf := make([]byte, echo.MaxFrame+1)
		for {
			n, err := m.NIC().Read(buf)
			if err != nil {
				return
			}
			if _, _, ok := echo.Parse(buf[:n]); !ok {
				continue
			}
			select {
			case tr.frames <- bytes.Clone(buf[:n]):
			default: // nobody asked for so many
			}
		}
	}()
	return tr
}

func (h Harness) patience() time.Duration {
	if h.Patience > 0 {
		return h.Patience
	}
	return time.Minute
}

// reach sends data until it comes back: a card loses frames while the guest starts. It is for data
// that was not sent before, because late replies to it may come.
func (tr *trial) reach(data string) {
	tr.t.Helper()
	deadline := time.After(tr.h.patience())
	for {
		tr.send(echo.Echo, data)
		if _, ok := tr.reply(echo.Echo, data, time.After(500*time.Millisecond), deadline); ok {
			return
		}
	}
}

// ask sends a request once, to a guest that is there.
func (tr *trial) ask(op echo.Op, data string) string {
	tr.t.Helper()
	tr.reach(rand.Text())
	tr.send(op, data)
	deadline := time.After(tr.h.patience())
	reply, _ := tr.reply(op, data, nil, deadline)
	return reply
}

// reply waits for the reply to a request. ok is false when it is time to send it again.
func (tr *trial) reply(op echo.Op, data string, again, deadline <-chan time.Time) (reply string, ok bool) {
	tr.t.Helper()
	for {
		select {
		case f, open := <-tr.frames:
			if !open {
				tr.t.Fatalf("the card has ended before the reply to %c", op)
			}
			if reply, ok := isReply(f, op, data); ok {
				return reply, true
			}
		case <-deadline:
			tr.t.Fatalf("no reply to %c; the console said %q", op, tr.serial)
		case <-again:
			return "", false
		}
	}
}

func isReply(frame []byte, op echo.Op, data string) (string, bool) {
	got, b, _ := echo.Parse(frame)
	reply := string(bytes.TrimRight(b, "\x00")) // padding
	return reply, got == op+('a'-'A') && (op != echo.Echo || reply == data)
}

func (tr *trial) send(op echo.Op, data string) {
	tr.t.Helper()
	if _, err := tr.m.NIC().Write(echo.Request(op, []byte(data))); err != nil {
		tr.t.Fatalf("write a frame: %v", err)
	}
}

func (tr *trial) waitSerial(want string) {
	tr.t.Helper()
	if !tr.serial.wait(want, tr.h.patience()) {
		tr.t.Fatalf("%q does not come on the console, which said %q", want, tr.serial)
	}
}

func (tr *trial) waitDone() {
	tr.t.Helper()
	select {
	case <-tr.m.Done():
	case <-time.After(tr.h.patience()):
		tr.t.Fatal("the machine does not end")
	}
}

// waitEvent returns the next event.
func (tr *trial) waitEvent(want vm.EventKind) {
	tr.t.Helper()
	select {
	case e, ok := <-tr.m.Events():
		if !ok || e.Kind != want {
			tr.t.Fatalf("event %+v (channel open: %v), want %s", e, ok, want)
		}
		if e.At.IsZero() {
			tr.t.Errorf("event %s has no time", e.Kind)
		}
	case <-time.After(tr.h.patience()):
		tr.t.Fatalf("no event %s", want)
	}
}

// kill ends the machine and checks that nothing is left of it.
func (tr *trial) kill() {
	tr.t.Helper()
	ctx, cancel := context.WithTimeout(tr.t.Context(), tr.h.patience())
	defer cancel()
	if err := tr.m.Kill(ctx); err != nil {
		tr.t.Fatalf("kill: %v", err)
	}
	select {
	case <-tr.m.Done():
	default:
		tr.t.Error("kill returned before the machine was gone")
	}
	assertNothingLeft(tr.t, tr.spec)
}

// collector keeps the end of what a reader gives and lets tests wait for words in it.
type collector struct {
	mu      sync.Mutex
	text    []byte
	total   int
	changed chan struct{} // closed and made anew at each change
	ended   bool
}

// maxCollected bounds what is kept, in bytes.
const maxCollected = 1 << 20

func collect(r io.Reader) *collector {
	c := &collector{changed: make(chan struct{})}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := r.Read(buf)
			c.mu.Lock()
			c.text = append(c.text, buf[:n]...)
			c.text = c.text[max(0, len(c.text)-maxCollected):]
			c.total += n
			c.ended = err != nil
			close(c.changed)
			c.changed = make(chan struct{})
			c.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return c
}

// wait takes everything up to and with want, so that the next wait is for what comes after it.
func (c *collector) wait(want string, limit time.Duration) bool {
	deadline := time.After(limit)
	for {
		c.mu.Lock()
		i := strings.Index(string(c.text), want)
		if i >= 0 {
			c.text = c.text[i+len(want):]
		}
		ended, changed := c.ended, c.changed
		c.mu.Unlock()
		if i >= 0 {
			return true
		}
		if ended {
			return false
		}
		select {
		case <-changed:
		case <-deadline:
			return false
		}
	}
}

func (c *collector) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

func (c *collector) waitEnd(limit time.Duration) bool {
	deadline := time.After(limit)
	for {
		c.mu.Lock()
		ended, changed := c.ended, c.changed
		c.mu.Unlock()
		if ended {
			return true
		}
		select {
		case <-changed:
		case <-deadline:
			return false
		}
	}
}

func (c *collector) String() string {
	if c == nil {
		return "(nobody listened)"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return string(c.text)
}

// assertNothingLeft says that no file is in the machine's directory and that nobody but spec.Lock
// holds the lock.
func assertNothingLeft(t *testing.T, spec vm.Spec) {
	t.Helper()
	left, err := os.ReadDir(string(spec.Dir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	for _, f := range left {
		t.Errorf("%s is left in the machine's directory", f.Name())
	}
	_ = spec.Lock.Close()
	if !lockFree(t, spec) {
		t.Error("the lock is still held")
	}
}
