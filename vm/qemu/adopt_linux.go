package qemu

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/console"
	"bromure.io/tui/vm/qemu/qmp"
)

// adoptTimeout bounds the wait for an answer of a QEMU that runs already.
const adoptTimeout = 10 * time.Second

// Adopt implements [vm.Backend]. A process that is proved to be the machine but does not answer
// gives a machine that can only be killed. Of spec only the workspace and Dir are used.
func (b *Backend) Adopt(ctx context.Context, spec vm.Spec, rec vm.Record) (vm.Machine, error) {
	if rec.Backend != backendName || rec.UUID != spec.Workspace.ID.UUID() {
		return nil, fmt.Errorf("adopt a machine: %w: the record is of something else", vm.ErrGone)
	}
	proc, err := openProcess(rec.PID)
	if err == nil {
		if err = proc.prove(b.proc, rec); err != nil {
			proc.close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("adopt a machine: %w", err)
	}
	nic, err := bindNIC(spec.Dir)
	if err != nil {
		proc.close()
		return nil, fmt.Errorf("adopt a machine: %w", err)
	}
	exited := make(chan struct{})
	m := &machine{
		log: b.log, dir: spec.Dir, rec: rec, proc: proc, exited: exited,
		nic: nic, console: console.New(), events: newEvents(),
	}
	ctx, cancel := context.WithTimeout(ctx, adoptTimeout)
	defer cancel()
	if m.ctlErr = m.reconnect(ctx); m.ctlErr != nil {
		if proc.gone() {
			proc.close()
			_ = nic.Close()
			_ = os.Remove(spec.Dir.NetHost())
			return nil, fmt.Errorf("adopt a machine: %w: it has just ended", vm.ErrGone)
		}
		b.log.Warn("a machine does not answer and can only be killed", "uuid", rec.UUID, "pid", rec.PID, "err", m.ctlErr)
	}
	m.startWatching()
	go func() {
		if proc.wait() == nil { // else it was let go of
			close(exited)
		}
	}()
	return m, nil
}

// reconnect attaches to the sockets of a QEMU that runs, and leaves none attached on an error.
func (m *machine) reconnect(ctx context.Context) error {
	var d net.Dialer
	serial, err := d.DialContext(ctx, "unix", m.dir.Serial())
	if err != nil {
		return err
	}
	conn, err := d.DialContext(ctx, "unix", m.dir.QMP())
	if err != nil {
		_ = serial.Close()
		return err
	}
	ctl, err := qmp.New(ctx, conn, m.onEvent) // owns conn
	if err != nil {
		_ = serial.Close()
		return err
	}
	var id struct{ UUID string }
	err = ctl.Run(ctx, "query-uuid", nil, &id)
	if err == nil && id.UUID != m.rec.UUID {
		err = fmt.Errorf("another machine (%.40q) answers at %s", id.UUID, m.dir.QMP())
	}
	if err == nil {
		err = errors.Join(waitForConsole(ctx, ctl), m.nic.connect(m.dir.NetGuest()))
	}
	if err != nil {
		_ = ctl.Close()
		_ = serial.Close()
		return err
	}
	m.ctl, m.serial = ctl, serial.(*net.UnixConn)
	return nil
}

// Find looks for a machine of the workspace whose record was lost: a daemon that is killed between
// starting QEMU and writing the record leaves one. It is a process of QEMU's that was started for
// the workspace and holds the file lockPath. The error is [vm.ErrGone] when there is none.
func (b *Backend) Find(id vm.ID, lockPath string) (vm.Record, error) {
	lock, err := os.Stat(lockPath)
	if err != nil {
		return vm.Record{}, fmt.Errorf("find a machine: %w", err)
	}
	dirs, err := os.ReadDir(b.proc.path())
	if err != nil {
		return vm.Record{}, fmt.Errorf("find a machine: %w", err)
	}
	for _, d := range dirs {
		pid, err := strconv.Atoi(d.Name())
		if err != nil || !b.proc.hasArgs(pid, "-uuid", id.UUID()) {
			continue
		}
		held, err := os.Stat(b.proc.path(d.Name(), "fd", strconv.Itoa(fdLock)))
		exe, err2 := b.proc.executable(pid)
		if err != nil || err2 != nil || !os.SameFile(held, lock) || !strings.HasPrefix(filepath.Base(exe), "qemu") {
			continue
		}
		spec := vm.Spec{Workspace: vm.Workspace{ID: id}, Accelerator: b.acceleratorOf(pid)}
		rec, err := b.record(pid, spec)
		if err != nil {
			continue
		}
		rec.Started = time.Time{} // nobody knows
		return rec, nil
	}
	return vm.Record{}, problem.Wrap(problem.NotFound, vm.ErrGone, "find a machine", "")
}

func (b *Backend) acceleratorOf(pid int) vm.Accelerator {
	if b.proc.hasArgs(pid, "-accel", accel(vm.KVM)) {
		return vm.KVM
	}
	return vm.Emulated
}
