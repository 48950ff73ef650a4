package qemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/console"
	"bromure.io/tui/vm/qemu/qmp"
)

// commandTimeout bounds every command to QEMU, whatever the caller allows: stop and cont take 1 ms.
const commandTimeout = 15 * time.Second

var errReleased = errors.New("this machine was let go of")

// machine is a QEMU process that runs.
type machine struct {
	log  *slog.Logger
	dir  layout.MachineDir
	rec  vm.Record
	proc *process

	ctl    *qmp.Client // nil when QEMU does not answer; then ctlErr says why
	ctlErr error

	nic     *nic
	serial  *net.UnixConn // nil when ctl is
	console *console.Console
	pumped  chan struct{} // closed when the console has everything
	events  *events
	report  reporter

	exited   <-chan struct{} // closed when the process has ended
	how      func() string   // how it ended, valid then; nil: nobody can know
	done     chan struct{}   // closed when the machine is gone
	letGo    sync.Once
	released chan struct{} // closed first thing by Release
	watched  chan struct{} // closed when watch knows which of the two came first
	ended    bool          // it was the end; valid when watched is closed
}

// startWatching makes m complete: from here on it notices its end.
func (m *machine) startWatching() {
	m.done = make(chan struct{})
	m.released = make(chan struct{})
	m.watched = make(chan struct{})
	m.pumped = make(chan struct{})
	go func() {
		defer close(m.pumped)
		if m.serial == nil {
			<-m.watched
			_ = m.console.Close()
			return
		}
		m.console.Pump(m.serial)
	}()
	go m.watch()
}

func (m *machine) watch() {
	select {
	case <-m.released:
		close(m.watched)
		return
	case <-m.exited:
	}
	// The process is dead, so both of its sockets end by themselves, behind the last event and
	// the last byte.
	if m.ctl != nil {
		<-m.ctl.Done()
		_ = m.ctl.Close()
	}
	m.ended = true
	close(m.watched)
	<-m.pumped
	m.closeConns()
	removeSockets(m.dir)
	m.events.close()
	m.proc.close()
	status := "unknown"
	if m.how != nil {
		status = m.how()
	}
	m.log.Info("a machine has ended", "uuid", m.rec.UUID, "pid", m.rec.PID, "status", status)
	close(m.done)
}

func (m *machine) closeConns() {
	if m.serial != nil {
		_ = m.serial.Close()
	}
	_ = m.nic.Close()
}

// removeSockets removes what a dead QEMU leaves in its directory. Other files there are the caller's.
func removeSockets(dir layout.MachineDir) {
	for _, p := range []string{dir.QMP(), dir.Serial(), dir.NetHost(), dir.NetGuest()} {
		_ = os.Remove(p)
	}
}

func (m *machine) Record() vm.Record                { return m.rec }
func (m *machine) NIC() io.ReadWriteCloser          { return m.nic }
func (m *machine) Serial() io.Reader                { return m.console }
func (m *machine) Events() <-chan vm.Event          { return m.events.ch }
func (m *machine) Done() <-chan struct{}            { return m.done }
func (m *machine) Pause(ctx context.Context) error  { return m.command(ctx, "pause", "stop") }
func (m *machine) Resume(ctx context.Context) error { return m.command(ctx, "resume", "cont") }
func (m *machine) Reset(ctx context.Context) error  { return m.command(ctx, "reset", "system_reset") }

// command runs a QMP command without arguments; act is the word for people.
func (m *machine) command(ctx context.Context, act, name string) error {
	if err := m.gone(); err != nil {
		return fmt.Errorf("%s the machine: %w", act, err)
	}
	if m.ctl == nil {
		return problem.Wrap(problem.Failed, m.ctlErr, act+" the machine: QEMU does not answer",
			"It can only be killed: bromure-cli vm kill "+m.rec.UUID[:8])
	}
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	err := m.ctl.Run(ctx, name, nil, nil)
	if errors.Is(err, qmp.ErrClosed) {
		// QEMU is gone or we let go of it, and the one who noticed may not have come around to it.
		select {
		case <-m.done:
		case <-m.released:
		case <-ctx.Done():
		}
		if gone := m.gone(); gone != nil {
			err = gone
		}
	}
	if err != nil {
		return fmt.Errorf("%s the machine: %w", act, err)
	}
	return nil
}

func (m *machine) gone() error {
	select {
	case <-m.done:
		return vm.ErrGone
	default:
	}
	select {
	case <-m.released:
		return errReleased
	default:
		return nil
	}
}

// Kill implements [vm.Machine]. The process was proved to be ours when it was started or adopted,
// and is held by a descriptor since.
func (m *machine) Kill(ctx context.Context) error {
	if err := m.gone(); err != nil {
		if errors.Is(err, vm.ErrGone) {
			return nil
		}
		return fmt.Errorf("kill the machine: %w", err)
	}
	if err := m.proc.kill(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	select {
	case <-m.done:
		return nil
	case <-m.released:
		return fmt.Errorf("kill the machine: %w", errReleased)
	case <-ctx.Done():
		return problem.Wrap(problem.DeadlineMiss, ctx.Err(), fmt.Sprintf("wait for QEMU (process %d) to end", m.rec.PID),
			"It may be waiting for a disk that does not answer.")
	}
}

// Release implements [vm.Machine]. Nothing of the machine is touched afterwards, also when it ends:
// its directory may be another machine's by then.
func (m *machine) Release() error {
	m.letGo.Do(func() {
		close(m.released)
		<-m.watched
		if m.ended {
			<-m.done
			return
		}
		if m.ctl != nil {
			_ = m.ctl.Close()
		}
		m.closeConns()
		_ = os.Remove(m.dir.NetHost())
		<-m.pumped
		m.events.close()
		m.proc.close()
	})
	return nil
}
