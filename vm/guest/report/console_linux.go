package report

import (
	"bytes"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"bromure.io/tui/vm/guest"
)

// maxPending bounds what is kept while the console does not open, in bytes.
const maxPending = 64 << 10

// Console is the kernel's console. One that is a virtio device has its driver among the modules, so it may open only after a
// while: what is said before is kept.
type Console struct {
	path string

	mu      sync.Mutex
	file    *os.File
	pending []byte
}

// NewConsole returns the console at path, normally [Path]. It is opened when it is first written to, and again when it was
// not there.
func NewConsole(path string) *Console { return &Console{path: path} }

// Path is the kernel's console.
const Path = "/dev/console"

// Step reports a finished step.
func (c *Console) Step(s guest.Step) { c.line(guest.FormatStep(s, uptime())) }

// Error reports a failed step, and returns when the host has all of it.
func (c *Console) Error(s guest.Step, err error) {
	c.line(guest.FormatError(s, err))
	c.Drain()
}

// Probe prints the line by which a probed machine proves itself, and returns when the host has it.
func (c *Console) Probe() {
	c.line(guest.ProbeMarker)
	c.Drain()
}

// Note tells people something that is no step.
func (c *Console) Note(text string) { c.line("bromure-guest: " + text) }

// Write makes a Console the target of a logger, which writes a line at a time.
func (c *Console) Write(b []byte) (int, error) {
	c.Note(string(bytes.TrimRight(b, "\n")))
	return len(b), nil
}

// line writes a line in one piece, so that those of other processes do not get between.
func (c *Console) line(s string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.pending)+len(s) < maxPending {
		c.pending = append(append(c.pending, s...), '\n')
	}
	if c.file == nil {
		f, err := os.OpenFile(c.path, os.O_WRONLY|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err != nil {
			return
		}
		c.file = f
	}
	if _, err := c.file.Write(c.pending); err == nil {
		c.pending = c.pending[:0]
	}
}

// Drain waits until what was written has left the machine.
func (c *Console) Drain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.file != nil {
		_ = unix.IoctlSetInt(int(c.file.Fd()), unix.TCSBRK, 1) // tcdrain(3)
	}
}

// uptime is how long the kernel runs.
func uptime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
