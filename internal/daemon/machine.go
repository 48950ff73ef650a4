package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"bromure.io/tui/internal/boot"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/guest"
	"bromure.io/tui/vm/link"
	"bromure.io/tui/vm/netstack"
)

// machine is the daemon's side of one running machine: its segment, its logs and the one kept
// connection to its guest. It implements boot.Guest.
type machine struct {
	d     *Daemon
	ws    vm.Workspace
	spec  vm.Spec
	keys  link.Keys
	vmm   vm.Machine
	fresh bool // started by this daemon, not adopted
	logs  *logs
	seg   *netstack.Segment

	link    atomic.Pointer[link.Link] // nil while there is none
	relink  chan struct{}             // closed and replaced (under mu) whenever link changes
	lines   chan guest.Line           // what the guest reports of its boot; lossy
	refused atomic.Int64
	starved atomic.Bool // its CPUs stand still until the host's disk has room

	mu       sync.Mutex
	stats    *guest.Stats
	ports    []guest.Port
	consoles int
	trimmed  time.Time // when unused blocks were last given back
	asked    bool      // the end of the machine was asked for, by us or by the guest itself

	life  context.Context // ends when the daemon lets go of the machine
	leave context.CancelFunc
	group sync.WaitGroup // goroutines of this machine

	ended chan struct{} // closed when the machine is gone and the daemon has put that down
}

// newMachine connects a started machine to its segment and its logs.
// fresh says that it was started just now, not adopted.
func (d *Daemon) newMachine(ws vm.Workspace, spec vm.Spec, keys link.Keys, vmm vm.Machine, fresh bool) (*machine, error) {
	logs, err := openLogs(d.opts.Root.Workspace(string(ws.ID)))
	if err != nil {
		return nil, err
	}
	m := &machine{
		d: d, ws: ws, spec: spec, keys: keys, vmm: vmm, logs: logs, fresh: fresh,
		relink: make(chan struct{}),
		lines:  make(chan guest.Line, 4*len(guest.Steps)),
		ended:  make(chan struct{}),
	}
	m.life, m.leave = context.WithCancel(context.Background())
	if m.seg, err = netstack.New(m.segmentConfig()); err == nil {
		err = m.seg.Attach(vmm.NIC())
	}
	if err != nil {
		m.Close()
		return nil, fmt.Errorf("connect %q to its network: %w", ws.Name, err)
	}
	m.group.Go(m.readSerial)
	return m, nil
}

// Answer waits until the guest answers over SSH with the keys of this boot.
func (m *machine) Answer(ctx context.Context, saw func(guest.Line)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case l := <-m.lines:
				if l.Err != "" {
					cancel(&boot.StepError{Step: string(l.Step), Err: errors.New(l.Err)})
					return
				}
				saw(l)
			case <-m.vmm.Done():
				cancel(problem.New(problem.Failed, "the machine ended before its guest answered",
					"See what it printed: bromure-cli vm logs --kind serial "+m.ws.ID.Short()+" (and --kind machine)"))
				return
			case <-ctx.Done():
				return
			}
		}
	})
	l, err := m.dial(ctx)
	if err == nil {
		err = m.greet(ctx, l)
	}
	cancel(nil)
	wg.Wait()
	for len(m.lines) > 0 { // what the guest reported while the connection was being made
		if line := <-m.lines; line.Err == "" && err == nil {
			saw(line)
		}
	}
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
			err = cause
		}
		return err
	}
	return nil
}

// greet sets the clock of a guest that has just been reached and makes l the kept connection.
func (m *machine) greet(ctx context.Context, l *link.Link) error {
	if _, err := l.SetClock(ctx, m.d.now()); err != nil {
		l.Close()
		return fmt.Errorf("set the guest's clock: %w", err)
	}
	m.setLink(l)
	return nil
}

// dial tries until the guest answers: its port is closed until its SSH server listens, and before
// its NIC is up nothing answers at all.
func (m *machine) dial(ctx context.Context) (*link.Link, error) {
	const pause = 15 * time.Millisecond // a refused try costs next to nothing on either side
	for {
		l, err := link.Dial(ctx, func(ctx context.Context) (net.Conn, error) {
			return m.seg.Dial(ctx, guest.SSHPort) // which tries again where a SYN may have got lost
		}, m.keys, guest.User, link.Emulated(m.spec.Accelerator == vm.Emulated))
		if err == nil {
			return l, nil
		}
		if errors.Is(err, link.ErrHostKey) || errors.Is(err, link.ErrLogin) || m.keys.IsZero() {
			return nil, problem.Wrap(problem.Unverified, err, "reach the guest", "Something else than this boot's guest answers; stop the machine.")
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// begin supervises a machine from now on: it keeps the connection and puts the end down.
func (m *machine) begin() {
	m.group.Go(m.keepLink)
	m.group.Go(m.watch)
}

// keepLink dials again when the connection is lost, as after a reboot of the guest.
func (m *machine) keepLink() {
	if m.keys.IsZero() {
		return // lost with a runtime directory: this machine can only be killed
	}
	for {
		l := m.link.Load()
		if l == nil {
			next, err := m.dial(m.life)
			if err == nil {
				err = m.greet(m.life, next)
			}
			if m.life.Err() != nil {
				return
			}
			if err != nil {
				m.d.log.Warn("reach a guest again", "workspace", m.ws.ID, "error", err)
				select {
				case <-time.After(time.Second):
				case <-m.life.Done():
					return
				}
				continue
			}
			m.d.answering(m)
			continue
		}
		select {
		case <-l.Done():
			m.d.log.Info("connection to a guest lost", "workspace", m.ws.ID, "error", l.Err())
			m.setLink(nil)
		case <-m.life.Done():
			return
		}
	}
}

// watch follows the machine until it is gone or the daemon lets go of it.
func (m *machine) watch() {
	events := m.vmm.Events()
	for {
		select {
		case e, ok := <-events:
			if !ok {
				events = nil
				continue
			}
			m.logs.note("machine: %s %s", e.Kind, e.Note)
			switch e.Kind {
			case vm.GuestReset:
				m.d.restarting(m)
			case vm.GuestPowerOff:
				m.expectEnd()
				m.d.setStateIf(m, vm.Stopping)
			case vm.HostDiskFull:
				if m.starved.CompareAndSwap(false, true) {
					m.group.Go(m.waitForRoom)
				}
			}
		case <-m.vmm.Done():
			m.d.gone(m)
			return
		case <-m.life.Done():
			return
		}
	}
}

func (m *machine) setLink(l *link.Link) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.link.Store(l)
	close(m.relink)
	m.relink = make(chan struct{})
}

// awaitLink waits for a connection to the guest other than old.
func (m *machine) awaitLink(ctx context.Context, old *link.Link, d boot.Deadlines) error {
	ctx, cancel := context.WithTimeout(ctx, d.Of(m.spec.Accelerator))
	defer cancel()
	for {
		m.mu.Lock()
		changed := m.relink
		m.mu.Unlock()
		if l := m.link.Load(); l != nil && l != old {
			return nil
		}
		select {
		case <-changed:
		case <-m.ended:
			return problem.New(problem.Failed, "the machine ended instead", "bromure-cli vm logs --kind serial "+m.ws.ID.Short())
		case <-ctx.Done():
			return problem.Wrap(problem.DeadlineMiss, ctx.Err(), "the guest does not answer", "bromure-cli vm logs --kind serial "+m.ws.ID.Short())
		}
	}
}

// powerOff asks the guest to shut down.
func (m *machine) powerOff(ctx context.Context, grace time.Duration) error {
	l := m.link.Load()
	if l == nil {
		return errors.New("it does not answer")
	}
	m.expectEnd()
	// The guest gets a little less time than we wait, so that it ends by itself in any case.
	return l.PowerOff(ctx, grace*3/4)
}

// reboot restarts the guest and returns when the old connection is gone.
func (m *machine) reboot(ctx context.Context, hard bool) error {
	l := m.link.Load()
	if hard || l == nil {
		err := m.vmm.Reset(ctx)
		if l != nil {
			l.Close() // it would notice only after a while
		}
		return err
	}
	if err := l.Reboot(ctx, DefaultStopTimeout/2); err != nil {
		return err
	}
	select {
	case <-l.Done():
		return nil
	case <-m.ended:
		return nil
	case <-time.After(DefaultStopTimeout):
		err := m.vmm.Reset(ctx)
		l.Close()
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// kill ends the machine and returns when its end is put down.
func (m *machine) kill() error {
	m.expectEnd()
	ctx, cancel := context.WithTimeout(context.Background(), killTimeout)
	defer cancel()
	if err := m.vmm.Kill(ctx); err != nil {
		return fmt.Errorf("kill the machine of %q: %w", m.ws.Name, err)
	}
	select {
	case <-m.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("kill the machine of %q: %w", m.ws.Name, ctx.Err())
	}
}

func (m *machine) expectEnd() {
	m.mu.Lock()
	m.asked = true
	m.mu.Unlock()
}

// Close lets go of everything but the machine itself.
func (m *machine) Close() {
	m.leave()
	if l := m.link.Load(); l != nil {
		l.Close()
	}
	if m.seg != nil {
		m.saveNames()
		m.seg.Close()
	}
	m.logs.close()
}
