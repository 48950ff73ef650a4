//go:build unix

package vmtest

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"bromure.io/tui/vm"
	"bromure.io/tui/vm/console"
)

// queued is how many frames wait in each direction.
const queued = 64

// outcome is why a boot of a fake machine ended.
type outcome int

const (
	outcomeNone outcome = iota
	outcomePowerOff
	outcomeReboot // by the guest
	outcomeReset  // by the host
	outcomePanic
	outcomeKilled
)

// hidden is the part of a fake machine that stands for the hypervisor's process.
type hidden struct {
	fake    *Fake
	spec    vm.Spec
	rec     vm.Record
	lock    *os.File
	toGuest chan []byte

	gone chan struct{} // closed when the machine is

	mu      sync.Mutex
	running chan struct{} // closed while the CPUs run
	cancel  context.CancelFunc
	why     outcome
	daemon  *fakeMachine // who is attached
}

// run boots the guest until the machine ends.
func (h *hidden) run(guest func(context.Context, *Guest)) {
	for boot := 1; ; boot++ {
		ctx, cancel := context.WithCancel(context.Background())
		h.mu.Lock()
		h.cancel = cancel
		if h.why != outcomeNone { // killed before it began
			cancel()
		}
		h.mu.Unlock()
		guest(ctx, &Guest{Spec: h.spec, Boot: boot, machine: h})
		<-ctx.Done()
		h.mu.Lock()
		why := h.why
		if why != outcomeKilled {
			h.why = outcomeNone
		}
		m := h.daemon
		h.mu.Unlock()
		kind, again := map[outcome]vm.EventKind{
			outcomePowerOff: vm.GuestPowerOff, outcomeReboot: vm.GuestReset, outcomePanic: vm.GuestPanic,
		}[why], why == outcomeReboot || why == outcomeReset
		if m != nil && kind != "" {
			m.events.send(vm.Event{Kind: kind, At: time.Now(), Note: "fake"})
		}
		if !again {
			break
		}
	}
	h.fake.mu.Lock()
	delete(h.fake.machines, h.rec.UUID)
	h.fake.mu.Unlock()
	_ = h.lock.Close()
	h.mu.Lock()
	m := h.daemon
	close(h.gone)
	h.mu.Unlock()
	if m != nil {
		m.detach()
		close(m.done)
	}
}

// end ends the boot that runs; the first reason stands, but nothing outlives a kill.
func (h *hidden) end(why outcome) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.why == outcomeNone || why == outcomeKilled {
		h.why = why
	}
	if h.cancel != nil {
		h.cancel()
	}
}

func (h *hidden) attachedTo() *fakeMachine {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.daemon
}

func (h *hidden) attach() *fakeMachine {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := &fakeMachine{
		hidden: h, console: console.New(), events: &fakeEvents{ch: make(chan vm.Event, 16)},
		toHost: make(chan []byte, queued), detached: make(chan struct{}), done: make(chan struct{}), pulled: make(chan struct{}),
	}
	select {
	case <-h.gone: // just now
		m.detach()
		close(m.done)
	default:
		h.daemon = m
	}
	return m
}

func (h *hidden) isGone() bool {
	select {
	case <-h.gone:
		return true
	default:
		return false
	}
}

// setRunning stops the CPUs or lets them go on.
func (h *hidden) setRunning(on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-h.running:
		if !on {
			h.running = make(chan struct{})
		}
	default:
		if on {
			close(h.running)
		}
	}
}

// execute blocks while the CPUs stand still.
func (h *hidden) execute(ctx context.Context) error {
	for {
		h.mu.Lock()
		running := h.running
		h.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-running:
		}
		h.mu.Lock()
		same := running == h.running
		h.mu.Unlock()
		if same {
			return ctx.Err()
		}
	}
}

// fakeMachine is the daemon's end.
type fakeMachine struct {
	hidden   *hidden
	console  *console.Console
	events   *fakeEvents
	toHost   chan []byte
	once     sync.Once
	detached chan struct{}
	done     chan struct{}

	pull   sync.Once
	pulled chan struct{} // closed when the card is
}

var _ vm.Machine = (*fakeMachine)(nil)

func (m *fakeMachine) detach() {
	m.once.Do(func() {
		close(m.detached)
		_ = m.console.Close()
		m.events.close()
	})
}

func (m *fakeMachine) Record() vm.Record       { return m.hidden.rec }
func (m *fakeMachine) NIC() io.ReadWriteCloser { return hostNIC{m} }
func (m *fakeMachine) Serial() io.Reader       { return m.console }
func (m *fakeMachine) Events() <-chan vm.Event { return m.events.ch }
func (m *fakeMachine) Done() <-chan struct{}   { return m.done }

// usable says whether m still speaks for a machine.
func (m *fakeMachine) usable(ctx context.Context, act string) error {
	if m.hidden.isGone() {
		return fmt.Errorf("%s a fake machine: %w", act, vm.ErrGone)
	}
	select {
	case <-m.detached:
		if m.hidden.isGone() { // it detached because of that
			return fmt.Errorf("%s a fake machine: %w", act, vm.ErrGone)
		}
		return fmt.Errorf("%s a fake machine: it was let go of", act)
	default:
		return ctx.Err()
	}
}

func (m *fakeMachine) Pause(ctx context.Context) error {
	err := m.usable(ctx, "pause")
	if err == nil {
		m.hidden.setRunning(false)
	}
	return err
}

func (m *fakeMachine) Resume(ctx context.Context) error {
	err := m.usable(ctx, "resume")
	if err == nil {
		m.hidden.setRunning(true)
	}
	return err
}

func (m *fakeMachine) Reset(ctx context.Context) error {
	err := m.usable(ctx, "reset")
	if err == nil {
		m.hidden.end(outcomeReset)
	}
	return err
}

func (m *fakeMachine) Kill(ctx context.Context) error {
	if m.hidden.isGone() && m.hidden.attachedTo() == m {
		<-m.done
		return nil
	}
	if err := m.usable(ctx, "kill"); err != nil {
		return err
	}
	m.hidden.end(outcomeKilled)
	select {
	case <-m.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m *fakeMachine) Release() error {
	h := m.hidden
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.daemon == m && !closed(h.gone) {
		h.daemon = nil
		m.detach()
	}
	return nil
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// hostNIC is the daemon's end of the card.
type hostNIC struct{ m *fakeMachine }

func (n hostNIC) Read(p []byte) (int, error) {
	select {
	case f := <-n.m.toHost:
		return copy(p, f), nil
	case <-n.m.detached:
		return 0, io.EOF
	case <-n.m.pulled:
		return 0, io.EOF
	}
}

func (n hostNIC) Write(p []byte) (int, error) {
	if closed(n.m.detached) || closed(n.m.pulled) {
		return 0, net.ErrClosed
	}
	select {
	case n.m.hidden.toGuest <- append([]byte(nil), p...):
		return len(p), nil
	case <-n.m.detached:
		return 0, net.ErrClosed
	case <-n.m.pulled:
		return 0, net.ErrClosed
	}
}

func (n hostNIC) Close() error {
	n.m.pull.Do(func() { close(n.m.pulled) })
	return nil
}

// fakeEvents loses the oldest event rather than blocking.
type fakeEvents struct {
	mu     sync.Mutex
	ch     chan vm.Event
	closed bool
}

func (e *fakeEvents) send(ev vm.Event) {
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

func (e *fakeEvents) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.closed = true
		close(e.ch)
	}
}
