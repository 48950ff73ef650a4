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

// reporter turns what QEMU reports into what the guest did. It belongs to the goroutine that
// delivers events.
type reporter struct {
	reset time.Time // the last one that counted
	full  bool      // the machine stands still for want of room
}

// report translates q; ok is false when there is nothing to say.
func (r *reporter) report(q qmp.Event, now time.Time) (ev vm.Event, ok bool) {
	switch q.Name {
	case "RESET": // the host's resets have events too
		if !r.reset.IsZero() && now.Sub(r.reset) < sameReset {
			return vm.Event{}, false
		}
		r.reset = now
	case "RESUME":
		r.full = false
	}
	ev, ok = translate(q, now)
	if ok && ev.Kind == vm.HostDiskFull {
		if r.full { // each write that was under way reports it
			return vm.Event{}, false
		}
		r.full = true
	}
	return ev, ok
}

// translate knows single events; ok is false for those that say nothing of the guest. Their members
// are in QEMU's qapi/run-state.json and qapi/block-core.json.
func translate(q qmp.Event, now time.Time) (ev vm.Event, ok bool) {
	var data struct {
		Guest  bool   `json:"guest"`
		Reason string `json:"reason"` // a ShutdownCause, or the words of an I/O error
		Action string `json:"action"`
		Full   bool   `json:"nospace"`
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
	case "BLOCK_IO_ERROR": // other errors are passed on to the guest
		ev.Kind, ok = vm.HostDiskFull, data.Full && data.Action == "stop"
	}
	if !ok {
		return vm.Event{}, false
	}
	return ev, true
}
