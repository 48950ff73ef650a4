package vm

import (
	"context"
	"io"
	"os"
	"time"

	"bromure.io/tui/internal/layout"
)

// Backend makes machines: QEMU on Linux, Virtualization.framework on macOS.
// vm/vmtest holds the contract that every implementation passes.
type Backend interface {
	// Name is the word for people and for state.json: "qemu", "vz", "fake".
	Name() string

	// Capabilities says what this backend can do on this host. It may take seconds the first time
	// (an accelerator is proved by booting a kernel under it); the answer is cached.
	Capabilities(ctx context.Context) (Capabilities, error)

	// Start runs a machine. It returns when the machine exists and its CPUs run; whether the guest
	// ever answers is for the caller to find out. On an error nothing is left: no process, no
	// socket, no file. The machine holds spec.Lock until it is gone; the
	// caller keeps its own descriptor and may close it. A lock that another open file holds gives [ErrLocked].
	Start(ctx context.Context, spec Spec) (Machine, error)

	// Adopt takes over a machine that an earlier daemon started, after proving that rec still
	// names it (never by process ID alone). A machine that is gone gives [ErrGone].
	Adopt(ctx context.Context, spec Spec, rec Record) (Machine, error)
}

// Capabilities is what a backend can do on this host.
type Capabilities struct {
	Accelerator Accelerator  `json:"accelerator"`
	Why         string       `json:"why"`            // why this accelerator; for "emulated" the reason and what would help
	Hint        string       `json:"hint,omitempty"` // what the user can do to get a better one
	Version     string       `json:"version"`        // of the hypervisor
	Formats     []DiskFormat `json:"disk_formats"`   // what disk.img may be
	Survives    bool         `json:"survives"`       // machines outlive the daemon and can be adopted
	Vsock       bool         `json:"vsock"`          // the private channel may be vsock
}

// Accelerator is how guest instructions are executed.
type Accelerator string

const (
	KVM      Accelerator = "kvm"
	Emulated Accelerator = "emulated" // QEMU's TCG
	Apple    Accelerator = "apple"
)

// Spec is everything a backend needs to run one machine.
type Spec struct {
	Workspace   Workspace
	Accelerator Accelerator // as Capabilities proved it, or Emulated to override it

	Disk    string // path of disk.img, in Workspace.DiskFormat
	Backing string // path of base.img, opened read-only; only where the format needs it
	Home    string // path of home.img, raw; empty: no second disk

	Kernel  string
	Initrd  string // one file: the image's initramfs with this boot's archive appended
	Cmdline string

	Dir layout.MachineDir // private directory for sockets, made by the caller
	Log string            // file that gets what the hypervisor's process prints

	Lock *os.File // flock-ed; inherited by the machine's process where it has one
}

// Serials of the virtio-blk devices: the guest finds its disks by them, never by order.
const (
	DiskSerial = "bromure-disk"
	HomeSerial = "bromure-home"
)

// Machine is the running form of a workspace. Its methods may be called from any goroutine.
type Machine interface {
	// Record is what [Backend.Adopt] needs to find this machine again.
	Record() Record

	// NIC is the host's end of the guest's only network card: one Ethernet frame (without FCS) a Read or Write. The
	// machine owns it. Read ends with io.EOF when the machine is gone or was released, or when the card was closed, with which
	// the machine goes on without a network; Write may block while the guest takes no frames, until then.
	NIC() io.ReadWriteCloser

	// Serial is what the guest prints on its serial console. There is one reader. It ends with io.EOF when the machine is
	// gone or was released. Nobody has to read: the guest is never held up, the oldest bytes are lost instead.
	Serial() io.Reader

	// Events reports what the guest did to itself or ran into, and nothing that the host did to it. It is closed when the machine is
	// gone or was released. Nobody has to read: the oldest events are lost instead.
	Events() <-chan Event

	// Pause stops the CPUs, Resume lets them go on.
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error

	// Reset restarts the guest as a reset button does.
	Reset(ctx context.Context) error

	// Kill ends the machine at once, like a power cut, and returns when it is gone and its lock is free (but for the
	// caller's own descriptor). A machine that is gone already is no error.
	Kill(ctx context.Context) error

	// Done is closed when the machine is gone, and not when it was released.
	Done() <-chan struct{}

	// Release lets go of the machine without stopping it, where [Capabilities].Survives. Everything else fails
	// afterwards.
	Release() error
}

// Event is something that a machine reports.
type Event struct {
	Kind EventKind
	At   time.Time
	Note string // for logs
}

// EventKind is the kind of an [Event].
type EventKind string

const (
	GuestReset    EventKind = "guest-reset"    // the guest rebooted itself; the machine lives on
	GuestPowerOff EventKind = "guest-poweroff" // the guest turned itself off; the machine will be gone
	GuestPanic    EventKind = "guest-panic"

	// HostDiskFull: a write of the guest found no room on the host. The CPUs stand still, nothing is lost; after
	// [Machine].Resume the write is tried again.
	HostDiskFull EventKind = "host-disk-full"
)

// Record identifies a machine across daemons: the part of state.json that belongs to the backend.
type Record struct {
	Backend     string      `json:"backend"`
	PID         int         `json:"pid,omitempty"`
	StartTicks  uint64      `json:"start_ticks,omitempty"` // start time of the process since host boot, proc(5) stat field 22
	BootID      string      `json:"boot_id,omitempty"`     // of the host
	Executable  string      `json:"executable,omitempty"`
	UUID        string      `json:"uuid,omitempty"` // as the hypervisor itself reports it
	Accelerator Accelerator `json:"accelerator,omitempty"`
	Started     time.Time   `json:"started"`
}
