package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"bromure.io/tui/images"
	"bromure.io/tui/internal/atomicfile"
	"bromure.io/tui/internal/boot"
	"bromure.io/tui/internal/failpoint"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/disk"
	"bromure.io/tui/vm/guest"
	"bromure.io/tui/vm/guestbin"
	"bromure.io/tui/vm/initramfs"
	"bromure.io/tui/vm/link"
)

// host does what the steps of one start need. It implements boot.Host.
type host struct {
	d    *Daemon
	id   vm.ID
	keys link.Keys
}

func (h *host) dir() layout.WorkspaceDir { return h.d.opts.Root.Workspace(string(h.id)) }

func (h *host) Lock(id vm.ID) (boot.Lock, error) { return h.d.store.Lock(id) }

func (h *host) Compromised(id vm.ID) (*vm.Compromise, error) { return h.d.store.Compromise(id) }

func (h *host) Image(ref string) (boot.Image, error) {
	m, err := h.d.image(ref)
	if err != nil {
		return boot.Image{}, err
	}
	dir := h.d.opts.Root.Image(string(m.Ref))
	return boot.Image{Ref: m.Ref, Base: dir.Base(), Kernel: dir.Kernel(), Initrd: dir.Initrd()}, nil
}

// image finds an image, the newest when ref is empty.
func (d *Daemon) image(ref string) (images.Manifest, error) {
	if ref == "" {
		return d.images.Newest()
	}
	r, err := images.ParseRef(ref)
	if err != nil {
		return images.Manifest{}, problem.Wrap(problem.Usage, err, "", "bromure-cli image ls")
	}
	return d.images.Get(r)
}

func (h *host) Disk(ctx context.Context, ws vm.Workspace, img boot.Image) (vm.Workspace, string, error) {
	dst := h.dir().Disk()
	if _, err := os.Lstat(dst); err == nil {
		if ws.DiskFormat == "" {
			return ws, "", problem.New(problem.Failed, fmt.Sprintf("there is a disk.img that the settings of %q know nothing of", ws.Name),
				"Its format is not guessed, since a guest could have forged it. Move it away to start with a new disk: "+dst)
		}
		return ws, "", nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return ws, "", err
	}
	caps, err := h.d.backend.Capabilities(ctx)
	if err != nil {
		return ws, "", err
	}
	r, err := disk.Clone(ctx, img.Base, dst, disk.Options{
		QCOW2: slices.Contains(caps.Formats, vm.QCOW2),
		Record: func(r disk.Result) error {
			changed, err := h.d.store.Update(ws.ID, func(w *vm.Workspace) error {
				w.Image, w.DiskFormat, w.CloneKind = string(img.Ref), r.Format, string(r.Kind)
				return nil
			})
			if err == nil {
				ws = changed
			}
			return err
		},
	})
	if err != nil {
		return ws, "", err
	}
	return ws, string(r.Kind), nil
}

func (h *host) Home(ctx context.Context, ws vm.Workspace) (string, error) {
	dst := h.dir().Home()
	if _, err := os.Lstat(dst); !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	if err := disk.CreateHome(ctx, dst, ws.HomeMiB<<20); err != nil {
		return "", fmt.Errorf("make the home disk: %w", err)
	}
	return "made", nil
}

// cmdline is the kernel's command line. The guest program finds its settings in the boot archive, so
// nothing about the workspace stands here.
func cmdline(arch string) string {
	console := "ttyS0"
	if arch == "arm64" {
		console = "ttyAMA0"
	}
	// quiet: every character on an emulated serial port costs an exit. panic=-1: reset at once.
	return "console=" + console + " quiet loglevel=4 panic=-1 net.ifnames=0 ipv6.disable=1"
}

func (h *host) Prepare(ctx context.Context, ws vm.Workspace, img boot.Image) (vm.Spec, error) {
	binary, err := guestbin.Binary(runtime.GOARCH)
	if err != nil {
		return vm.Spec{}, err
	}
	if h.keys, err = link.NewKeys(); err != nil {
		return vm.Spec{}, fmt.Errorf("make the keys of this boot: %w", err)
	}
	dir := h.d.opts.Runtime.Machine(string(ws.ID))
	if err := layout.CheckSocket(dir.NetGuest()); err != nil {
		return vm.Spec{}, err
	}
	// The lock is held, so whatever is there belongs to a machine that is gone.
	if err := os.RemoveAll(string(dir)); err != nil {
		return vm.Spec{}, err
	}
	if err := layout.Ensure(string(dir)); err != nil {
		return vm.Spec{}, err
	}
	failpoint.Here("runtime directory: made")
	spec := vm.Spec{
		Workspace: ws,
		Disk:      h.dir().Disk(),
		Home:      h.dir().Home(),
		Kernel:    img.Kernel,
		Initrd:    dir.Initrd(),
		Cmdline:   cmdline(runtime.GOARCH),
		Dir:       dir,
		Log:       h.dir().Log(layout.MachineLog),
	}
	if ws.DiskFormat == vm.QCOW2 {
		base, err := h.Image(ws.Image)
		if err != nil {
			return vm.Spec{}, fmt.Errorf("find the base that the disk of %q is an overlay on: %w", ws.Name, err)
		}
		spec.Backing = base.Base
	}
	err = h.writeBoot(spec, img, binary)
	if err != nil {
		os.RemoveAll(string(dir))
		return vm.Spec{}, err
	}
	return spec, os.MkdirAll(filepath.Dir(spec.Log), layout.DirMode)
}

// writeBoot writes what this boot needs: the archive for the guest, and the keys for a daemon that adopts the machine.
func (h *host) writeBoot(spec vm.Spec, img boot.Image, binary []byte) error {
	err := initramfs.Write(spec.Initrd, img.Initrd, binary, guest.Boot{
		Version:    guest.Version,
		Mode:       guest.Workspace,
		Hostname:   guest.Hostname(string(spec.Workspace.Name)),
		Now:        h.Now(),
		DiskSerial: vm.DiskSerial,
		HomeSerial: vm.HomeSerial,
		Address:    guest.GuestAddress,
		PrefixLen:  guest.PrefixLength,
		Gateway:    guest.GatewayAddress,
		NIC:        string(spec.Workspace.MAC),
		HostKey:    h.keys.HostKey(),
		ClientKey:  h.keys.Authorized(),
		Timezone:   timezone(),
	})
	if err != nil {
		return fmt.Errorf("write the boot archive: %w", err)
	}
	failpoint.Here("runtime directory: boot archive written")
	data, err := json.Marshal(h.keys)
	if err != nil {
		return err
	}
	return atomicfile.Write(spec.Dir.Keys(), data, layout.FileMode)
}

func (h *host) Discard(id vm.ID) {
	if err := os.RemoveAll(string(h.d.opts.Runtime.Machine(string(id)))); err != nil {
		h.d.log.Warn("remove the runtime directory", "workspace", id, "error", err)
	}
	failpoint.Here("runtime directory: removed")
}

func (h *host) Capabilities(ctx context.Context) (vm.Capabilities, error) {
	return h.d.backend.Capabilities(ctx)
}

func (h *host) Distrust(ctx context.Context, why string) {
	h.d.log.Warn("the accelerator is not trusted any more", "why", why)
	if b, ok := h.d.backend.(interface {
		Distrust(ctx context.Context, reason string) error
	}); ok {
		if err := b.Distrust(ctx, why); err != nil {
			h.d.log.Warn("remember that", "error", err)
		}
	}
}

// StartMachine starts the machine and records it at once, so that a daemon that takes over after a crash finds it.
func (h *host) StartMachine(ctx context.Context, spec vm.Spec) (vm.Machine, error) {
	m, err := h.d.backend.Start(ctx, spec)
	if err != nil {
		return nil, err
	}
	failpoint.Here("machine: started")
	if err := h.d.store.SetMachine(h.id, m.Record(), spec); err != nil {
		kill, cancel := context.WithTimeout(context.Background(), killTimeout)
		defer cancel()
		_ = m.Kill(kill)
		return nil, fmt.Errorf("record the machine: %w", err)
	}
	return m, nil
}

func (h *host) Connect(_ context.Context, spec vm.Spec, m vm.Machine) (boot.Guest, error) {
	return h.d.newMachine(spec.Workspace, spec, h.keys, m, true)
}

func (h *host) Now() time.Time { return h.d.now() }

// timezone is the host's time zone by name, empty when it has none that a guest would know.
func timezone() string {
	if tz := os.Getenv("TZ"); tz != "" {
		return ""
	}
	target, err := os.Readlink("/etc/localtime")
	if err != nil {
		return ""
	}
	for _, base := range []string{"/usr/share/zoneinfo/", "/var/db/timezone/zoneinfo/"} {
		if rel, err := filepath.Rel(base, target); err == nil && filepath.IsLocal(rel) {
			return rel
		}
	}
	return ""
}
