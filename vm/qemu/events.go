package qemu

import (
	"encoding/json"
	"sync"
	"time"

	"bromure.io/tui/vm"
	"bromure.io/tui/vm/qemu/qmp"
)

// maxEvents is how many events wait for their reader. A guest can reset itself as often as it
// likes: then the oldest events are lost, and never the last one.
const maxEvents = 16

// events is the channel of a machine's events.
type events struct {
	mu     sync.Mutex
	ch     chan vm.Event
	closed bool
}

func newEvents() *events { return &events{ch: make(chan vm.Event, maxEvents)} }

// send never blocks.
func (e *events) send(ev vm.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for !e.closed {
		select {
		case e.ch <- ev:
			return
		default:
		}
		select {
		case <-e.ch:
		default:
		}
	}
}

func (e *events) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.closed = true
		close(e.ch)
	}
}

// sameReset is how close two resets are taken for one. SeaBIOS answers each reset of a q35 machine
// with one of its own (QEMU does not map the ROM back, so it copies itself anew first), which cannot be told from the
// guest's. It comes within a fifth of a second.
const sameReset = 2 * time.Second

// resets drops what follows a reset closely. It belongs to the goroutine that delivers events.
type resets struct{ last time.Time }

// again says whether a reset at now is part of the one before.
func (r *resets) again(now time.Time) bool {
	if !r.last.IsZero() && now.Sub(r.last) < sameReset {
		return true
	}
	r.last = now
	return false
}

// translate turns what QEMU reports into what the guest did; ok is false for everything else.
// Reasons are QEMU's ShutdownCause (qapi/run-state.json).
func translate(q qmp.Event, now time.Time) (ev vm.Event, ok bool) {
	var data struct {
		Guest  bool   `json:"guest"`
		Reason string `json:"reason"`
	}
	if len(q.Data) > 0 && json.Unmarshal(q.Data, &data) != nil {
		return vm.Event{}, false
	}
	ev = vm.Event{At: q.At, Note: data.Reason}
	if ev.At.IsZero() {
		ev.At = now
	}
	switch q.Name {
	case "SHUTDOWN":
		switch data.Reason {
		case "guest-reset":
			ev.Kind = vm.GuestReset
		case "guest-panic":
			ev.Kind = vm.GuestPanic
		default:
			ev.Kind = vm.GuestPowerOff
		}
		ok = data.Guest
	case "RESET":
		ev.Kind, ok = vm.GuestReset, data.Guest
	case "GUEST_PANICKED":
		ev.Kind, ev.Note, ok = vm.GuestPanic, "", true
	}
	if !ok {
		return vm.Event{}, false
	}
	return ev, true
}
