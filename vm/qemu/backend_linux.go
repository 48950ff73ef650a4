package qemu

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"time"

	"bromure.io/tui/vm"
)

// Backend implements [vm.Backend].
type Backend struct {
	config Config
	log    *slog.Logger
	arch   string
	proc   procfs
	kvm    string        // path of KVM's device
	limit  time.Duration // of a probe

	probing chan struct{} // holds one token while a probe runs
	answer  accelCache    // the last one; belongs to the holder of the token

	mu       sync.Mutex
	versions map[string]programVersion // by path of the program
}

// programVersion is what a program said when it was this file.
type programVersion struct {
	modified time.Time
	size     int64
	version  string
	qboot    bool
}

var _ vm.Backend = (*Backend)(nil)

// New returns a backend. It does nothing yet: what is missing is reported by the first call that needs it.
func New(config Config) *Backend {
	b := &Backend{
		config:   config,
		log:      config.Log,
		arch:     runtime.GOARCH,
		proc:     hostProc,
		kvm:      "/dev/kvm",
		limit:    probeLimit,
		probing:  make(chan struct{}, 1),
		versions: make(map[string]programVersion),
	}
	if b.log == nil {
		b.log = slog.New(slog.DiscardHandler)
	}
	return b
}

// Name implements [vm.Backend].
func (b *Backend) Name() string { return backendName }

// host finds QEMU and makes sure that it is new enough. What it can do is asked for once for each file.
func (b *Backend) host(ctx context.Context) (Host, error) {
	h, _, err := b.hostVersion(ctx)
	return h, err
}

func (b *Backend) hostVersion(ctx context.Context) (Host, string, error) {
	path := b.config.Getenv("PATH")
	h, err := findHost(b.arch, path)
	if err != nil {
		return Host{}, "", err
	}
	fi, err := os.Stat(h.Binary)
	if err != nil {
		return Host{}, "", err
	}
	b.mu.Lock()
	known, ok := b.versions[h.Binary]
	b.mu.Unlock()
	if ok && known.modified.Equal(fi.ModTime()) && known.size == fi.Size() {
		h.QBoot = known.qboot
		return h, known.version, nil
	}
	version, err := askVersion(ctx, h, path)
	if err != nil {
		return Host{}, "", err
	}
	h.QBoot = b.arch == "amd64" && hasQBoot(ctx, h)
	if err := ctx.Err(); err != nil { // then the answer may be wrong
		return Host{}, "", err
	}
	b.mu.Lock()
	b.versions[h.Binary] = programVersion{fi.ModTime(), fi.Size(), version, h.QBoot}
	b.mu.Unlock()
	return h, version, nil
}

// Capabilities implements [vm.Backend]. The first call on a host that may have KVM boots a kernel.
func (b *Backend) Capabilities(ctx context.Context) (vm.Capabilities, error) {
	host, version, err := b.hostVersion(ctx)
	if err != nil {
		return vm.Capabilities{}, err
	}
	v, err := b.judge(ctx, host, version)
	if err != nil {
		return vm.Capabilities{}, err
	}
	caps := vm.Capabilities{
		Accelerator: vm.Emulated,
		Why:         v.why,
		Hint:        v.hint,
		Version:     "QEMU " + version,
		Formats:     []vm.DiskFormat{vm.Raw, vm.QCOW2},
		Survives:    true,
	}
	if v.kvm {
		caps.Accelerator = vm.KVM
	}
	return caps, nil
}
