//go:build unix

package vmtest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/vmtest/echo"
)

// fakeName is the word in state.json.
const fakeName = "fake"

// firstFakePID is above every process ID that Linux gives (PID_MAX_LIMIT, 4 Mi).
const firstFakePID = 5_000_000

// Fake is a backend whose machines are goroutines of this process. They really hold the lock, boot a
// guest function instead of a kernel, and outlive the daemon under test as QEMU does: a second
// daemon adopts them from the same Fake. The fields must not be changed after the first Start.
type Fake struct {
	// Guest is what each boot of each machine runs. It must return when ctx ends, which is at the end
	// of the boot; when it returns earlier, the machine stands still until it is killed or reset. Nil:
	// the guest of the contract, [EchoGuest].
	Guest func(ctx context.Context, g *Guest)

	// FailStart makes Start fail where it returns an error.
	FailStart func(vm.Spec) error

	// Accelerator is what Capabilities reports; empty: emulated.
	Accelerator vm.Accelerator

	mu       sync.Mutex
	machines map[string]*hidden // by UUID, those that run
	started  int
}

var _ vm.Backend = (*Fake)(nil)

// Name implements [vm.Backend].
func (f *Fake) Name() string { return fakeName }

// Capabilities implements [vm.Backend].
func (f *Fake) Capabilities(ctx context.Context) (vm.Capabilities, error) {
	acc := f.Accelerator
	if acc == "" {
		acc = vm.Emulated
	}
	return vm.Capabilities{
		Accelerator: acc,
		Why:         "nothing is executed",
		Version:     "fake 1",
		Formats:     []vm.DiskFormat{vm.Raw, vm.QCOW2},
		Survives:    true,
	}, ctx.Err()
}

// Started is how many machines were started, gone ones included.
func (f *Fake) Started() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.started
}

// Running lists the records of the machines that run.
func (f *Fake) Running() []vm.Record {
	f.mu.Lock()
	defer f.mu.Unlock()
	var recs []vm.Record
	for _, h := range f.machines {
		recs = append(recs, h.rec)
	}
	return recs
}

// Disconnect does what the sudden death of the daemon does: every machine runs on and nobody is
// attached to it.
func (f *Fake) Disconnect() {
	f.mu.Lock()
	all := make([]*hidden, 0, len(f.machines))
	for _, h := range f.machines {
		all = append(all, h)
	}
	f.mu.Unlock()
	for _, h := range all {
		if m := h.attachedTo(); m != nil {
			_ = m.Release()
		}
	}
}

// Die ends the machine with that UUID as a crash of the hypervisor does: without an event.
func (f *Fake) Die(uuid string) {
	f.mu.Lock()
	h := f.machines[uuid]
	f.mu.Unlock()
	if h != nil {
		h.end(outcomeKilled)
		<-h.gone
	}
}

// Start implements [vm.Backend].
func (f *Fake) Start(ctx context.Context, spec vm.Spec) (vm.Machine, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("start a fake machine: %w", err)
	}
	if err := checkSpec(spec); err != nil {
		return nil, fmt.Errorf("start a fake machine: %w", err)
	}
	if f.FailStart != nil {
		if err := f.FailStart(spec); err != nil {
			return nil, err
		}
	}
	if err := flock(spec.Lock); errors.Is(err, unix.EWOULDBLOCK) {
		return nil, problem.Wrap(problem.Refused, vm.ErrLocked, "start a fake machine", "")
	} else if err != nil {
		return nil, err
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	uuid := spec.Workspace.ID.UUID()
	if f.machines[uuid] != nil {
		return nil, problem.New(problem.Refused, "start a fake machine: the workspace has one", "")
	}
	// A second descriptor of the same open file: the lock lasts until both are closed.
	fd, err := unix.FcntlInt(spec.Lock.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	f.started++
	h := &hidden{
		fake: f,
		spec: spec,
		lock: os.NewFile(uintptr(fd), spec.Lock.Name()),
		rec: vm.Record{
			Backend: fakeName, PID: firstFakePID + f.started, StartTicks: uint64(f.started), BootID: "fake-boot",
			Executable: "/fake", UUID: uuid, Accelerator: spec.Accelerator, Started: time.Now(),
		},
		toGuest: make(chan []byte, queued),
		gone:    make(chan struct{}),
		running: make(chan struct{}),
	}
	close(h.running)
	if f.machines == nil {
		f.machines = make(map[string]*hidden)
	}
	f.machines[uuid] = h
	m := h.attach()
	guest := f.Guest
	if guest == nil {
		guest = EchoGuest
	}
	go h.run(guest)
	return m, nil
}

// Adopt implements [vm.Backend].
func (f *Fake) Adopt(ctx context.Context, spec vm.Spec, rec vm.Record) (vm.Machine, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("adopt a fake machine: %w", err)
	}
	f.mu.Lock()
	h := f.machines[spec.Workspace.ID.UUID()]
	f.mu.Unlock()
	if h == nil || !sameMachine(h.rec, rec) {
		return nil, fmt.Errorf("adopt a fake machine: %w", vm.ErrGone)
	}
	if h.attachedTo() != nil {
		return nil, problem.New(problem.Refused, "adopt a fake machine: another daemon has it", "")
	}
	return h.attach(), nil
}

// sameMachine leaves out Started, which is for people.
func sameMachine(a, b vm.Record) bool {
	a.Started, b.Started = time.Time{}, time.Time{}
	return a == b
}

// checkSpec refuses what a real backend refuses.
func checkSpec(spec vm.Spec) error {
	if err := spec.Workspace.Check(); err != nil {
		return err
	}
	switch spec.Accelerator {
	case vm.KVM, vm.Emulated, vm.Apple:
	default:
		return fmt.Errorf("unknown accelerator %q", spec.Accelerator)
	}
	if spec.Lock == nil {
		return errors.New("the spec has no lock")
	}
	if fi, err := os.Stat(string(spec.Dir)); err != nil || !fi.IsDir() {
		return fmt.Errorf("the machine's directory: %w", errors.Join(err, fs.ErrInvalid))
	}
	for _, p := range []string{spec.Kernel, spec.Initrd, spec.Disk, spec.Backing, spec.Home} {
		if p == "" {
			continue
		}
		if fi, err := os.Stat(p); err != nil {
			return err
		} else if !fi.Mode().IsRegular() {
			return fmt.Errorf("not a file: %s", p)
		}
	}
	return nil
}

// EchoGuest is the guest of the contract.
func EchoGuest(ctx context.Context, g *Guest) {
	disks := map[string]string{vm.DiskSerial: g.Spec.Disk, vm.HomeSerial: g.Spec.Home}
	_ = echo.Serve(g.NIC(ctx), g.Serial(ctx), rand.Text(), echo.Host{
		Disks: func() string {
			var lines string
			for serial, path := range disks {
				if fi, err := os.Stat(path); err == nil {
					lines += fmt.Sprintf("%s %d rw\n", serial, fi.Size())
				}
			}
			return lines
		},
		Write: func(serial string, data []byte) error {
			f, err := os.OpenFile(disks[serial], os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteAt(data, echo.WriteOffset)
			return err
		},
		PowerOff: g.PowerOff,
		Reboot:   g.Reboot,
	})
}

// SilentGuest never says anything: a boot that hangs.
func SilentGuest(ctx context.Context, _ *Guest) { <-ctx.Done() }
