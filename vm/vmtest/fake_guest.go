//go:build unix

package vmtest

import (
	"context"
	"io"
	"time"

	"bromure.io/tui/vm"
)

// Guest is what a guest function of a [Fake] sees of its machine.
type Guest struct {
	Spec vm.Spec
	Boot int // counts from 1

	machine *hidden
}

// NIC is the guest's end of its card: a frame a Read or Write. Both fail when ctx ends.
func (g *Guest) NIC(ctx context.Context) io.ReadWriter { return guestNIC{ctx, g.machine} }

// Serial is the guest's console. Writing never waits for a reader; it fails when ctx ends.
func (g *Guest) Serial(ctx context.Context) io.Writer { return guestSerial{ctx, g.machine} }

// PowerOff turns the machine off. Like the others here it ends the boot's context; the guest
// function has to return then.
func (g *Guest) PowerOff() { g.machine.end(outcomePowerOff) }

// Reboot starts the guest function again.
func (g *Guest) Reboot() { g.machine.end(outcomeReboot) }

// Panic ends the machine as a kernel that panics does.
func (g *Guest) Panic() { g.machine.end(outcomePanic) }

// Crash ends the machine without an event: its hypervisor has died.
func (g *Guest) Crash() { g.machine.end(outcomeKilled) }

// DiskFull stops the CPUs as a write does that finds no room on the host.
func (g *Guest) DiskFull() {
	g.machine.setRunning(false)
	if m := g.machine.attachedTo(); m != nil {
		m.events.send(vm.Event{Kind: vm.HostDiskFull, At: time.Now(), Note: "fake"})
	}
}

type guestNIC struct {
	ctx context.Context
	h   *hidden
}

func (n guestNIC) Read(p []byte) (int, error) {
	select {
	case <-n.ctx.Done():
		return 0, n.ctx.Err()
	case f := <-n.h.toGuest:
		if err := n.h.execute(n.ctx); err != nil {
			return 0, err
		}
		return copy(p, f), nil
	}
}

// Write loses the frame when no daemon is attached.
func (n guestNIC) Write(p []byte) (int, error) {
	if err := n.h.execute(n.ctx); err != nil {
		return 0, err
	}
	m := n.h.attachedTo()
	if m == nil {
		return len(p), nil
	}
	select {
	case m.toHost <- append([]byte(nil), p...):
	case <-m.detached:
	case <-m.pulled:
	case <-n.ctx.Done():
		return 0, n.ctx.Err()
	}
	return len(p), nil
}

type guestSerial struct {
	ctx context.Context
	h   *hidden
}

func (s guestSerial) Write(p []byte) (int, error) {
	if err := s.h.execute(s.ctx); err != nil {
		return 0, err
	}
	if m := s.h.attachedTo(); m != nil {
		_, _ = m.console.Write(p)
	}
	return len(p), nil
}
