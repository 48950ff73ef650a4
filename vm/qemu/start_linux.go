package qemu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/console"
	"bromure.io/tui/vm/qemu/qmp"
)

// startTimeout bounds the time from exec to running CPUs. It is 60 ms on an idle computer; a
// loaded one with a cold page cache takes seconds.
const startTimeout = 60 * time.Second

// Start implements [vm.Backend]. It takes the lock (flock) when the caller has not.
func (b *Backend) Start(ctx context.Context, spec vm.Spec) (_ vm.Machine, err error) {
	if err := check(spec); err != nil {
		return nil, problem.Wrap(problem.Failed, err, "start QEMU", "")
	}
	host, err := b.host(ctx)
	if err != nil {
		return nil, err
	}
	if err := checkFiles(spec); err != nil {
		return nil, err
	}
	if err := takeLock(spec.Lock); err != nil {
		return nil, err
	}

	var undo cleanup
	defer func() {
		if err != nil {
			undo.run()
		}
	}()
	if err := clearStale(spec.Dir.NetGuest(), "unixgram"); err != nil { // QEMU would remove it unasked
		return nil, err
	}
	undo.add(func() { _ = os.Remove(spec.Dir.NetGuest()) })
	nic, err := bindNIC(spec.Dir)
	if err != nil {
		return nil, err
	}
	undo.add(func() { _ = nic.Close(); _ = os.Remove(spec.Dir.NetHost()) })
	qmpListener, qmpConn, err := listenStream(spec.Dir.QMP())
	if err != nil {
		return nil, err
	}
	defer qmpListener.Close()
	undo.add(func() { _ = qmpConn.Close(); _ = os.Remove(spec.Dir.QMP()) })
	serialListener, serialConn, err := listenStream(spec.Dir.Serial())
	if err != nil {
		return nil, err
	}
	defer serialListener.Close()
	undo.add(func() { _ = serialConn.Close(); _ = os.Remove(spec.Dir.Serial()) })

	child, err := run(host.Binary, Args(spec, host), spec.Log, spec.Lock, qmpListener, serialListener)
	if err != nil {
		return nil, err
	}
	// When QEMU ends, nobody else may hold its listening sockets, or we would wait for an answer.
	_ = qmpListener.Close()
	_ = serialListener.Close()
	undo.add(child.end)

	m := &machine{
		log: b.log, dir: spec.Dir, proc: child.proc,
		exited: child.exited, how: func() string { return child.state.String() },
		nic: nic, serial: serialConn, console: console.New(), events: newEvents(),
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := m.bringUp(ctx, qmpConn); err != nil {
		return nil, child.explain(ctx, err, spec)
	}
	undo.add(func() { _ = m.ctl.Close() })
	if m.rec, err = b.record(child.proc.pid, spec); err != nil {
		return nil, err
	}
	m.startWatching()
	return m, nil
}

// bringUp connects everything and lets the CPUs run.
func (m *machine) bringUp(ctx context.Context, conn net.Conn) error {
	ctl, err := qmp.New(ctx, conn, m.onEvent)
	if err != nil {
		return err
	}
	err = errors.Join(waitForConsole(ctx, ctl), m.nic.connect(m.dir.NetGuest()))
	if err == nil {
		err = ctl.Run(ctx, "cont", nil, nil)
	}
	if err != nil {
		_ = ctl.Close()
		return err
	}
	m.ctl = ctl
	return nil
}

func (m *machine) onEvent(e qmp.Event) {
	if ev, ok := m.report.report(e, time.Now()); ok {
		m.events.send(ev)
	}
}

// waitForConsole returns when QEMU has accepted the serial connection: until then it drops what
// the guest prints. Each turn of QEMU's main loop that answers us accepts what waits, so it is
// seldom asked twice.
func waitForConsole(ctx context.Context, ctl *qmp.Client) error {
	for {
		var devs []struct {
			Label string `json:"label"`
			File  string `json:"filename"`
		}
		if err := ctl.Run(ctx, "query-chardev", nil, &devs); err != nil {
			return err
		}
		for _, d := range devs {
			if d.Label == "serial" && !strings.HasPrefix(d.File, "disconnected:") {
				return nil
			}
		}
	}
}

// record identifies the process that runs now.
func (b *Backend) record(pid int, spec vm.Spec) (vm.Record, error) {
	boot, err := b.proc.bootID()
	if err != nil {
		return vm.Record{}, err
	}
	_, start, err := b.proc.stat(pid)
	if err != nil {
		return vm.Record{}, fmt.Errorf("identify QEMU: %w", err)
	}
	exe, err := b.proc.executable(pid) // may differ from what was started: a wrapper
	if err != nil {
		return vm.Record{}, fmt.Errorf("identify QEMU: %w", err)
	}
	return vm.Record{
		Backend: backendName, PID: pid, StartTicks: start, BootID: boot, Executable: exe,
		UUID: spec.Workspace.ID.UUID(), Accelerator: spec.Accelerator, Started: time.Now(),
	}, nil
}

// checkFiles gives clear errors for what QEMU would complain about in its own way.
func checkFiles(spec vm.Spec) error {
	if fi, err := os.Stat(string(spec.Dir)); err != nil || !fi.IsDir() {
		return problem.Wrap(problem.Failed, cmpErr(err, fs.ErrInvalid), "use the machine's directory "+string(spec.Dir), "")
	}
	for _, f := range []struct {
		what, path string
		mode       uint32
		hint       string
	}{
		{"the kernel", spec.Kernel, unix.R_OK, "Build the image again: bromure-cli image build"},
		{"the initramfs", spec.Initrd, unix.R_OK, "Build the image again: bromure-cli image build"},
		{"the disk", spec.Disk, unix.R_OK | unix.W_OK, ""},
		{"the disk's base", spec.Backing, unix.R_OK, "Build the image again: bromure-cli image build"},
		{"the home disk", spec.Home, unix.R_OK | unix.W_OK, ""},
	} {
		if f.path == "" {
			continue
		}
		fi, err := os.Stat(f.path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return problem.Wrap(problem.NotFound, err, "open "+f.what, f.hint)
		case err != nil:
			return problem.Wrap(problem.Failed, err, "open "+f.what, "")
		case !fi.Mode().IsRegular():
			return problem.New(problem.Failed, "open "+f.what+": not a file: "+f.path, f.hint)
		}
		if err := unix.Access(f.path, f.mode); err != nil {
			return problem.Wrap(problem.Missing, &fs.PathError{Op: "access", Path: f.path, Err: err}, "open "+f.what,
				"The file must belong to the user who starts the machine.")
		}
	}
	return nil
}

func cmpErr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}

func takeLock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EWOULDBLOCK):
			return problem.Wrap(problem.Refused, vm.ErrLocked, "start QEMU", "")
		default:
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
	}
}

// cleanup undoes steps in reverse order.
type cleanup []func()

func (c *cleanup) add(f func()) { *c = append(*c, f) }

func (c *cleanup) run() {
	for i := len(*c) - 1; i >= 0; i-- {
		(*c)[i]()
	}
}
