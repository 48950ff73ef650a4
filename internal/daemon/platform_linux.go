package daemon

import (
	"context"
	"os"
	"path/filepath"
	"runtime"

	"bromure.io/tui/vm"
	"bromure.io/tui/vm/guest"
	"bromure.io/tui/vm/guestbin"
	"bromure.io/tui/vm/initramfs"
	"bromure.io/tui/vm/qemu"
)

// platformBackend is the backend of this system: QEMU.
func (d *Daemon) platformBackend() vm.Backend {
	return qemu.New(qemu.Config{
		Getenv:    os.Getenv,
		CacheFile: d.opts.Root.AccelCache(),
		ProbeBoot: d.probeBoot,
		Log:       d.log,
	})
}

// probeBoot makes what the accelerator probe boots: the kernel of the newest image with nothing but the guest
// program, which prints its marker and powers off.
func (d *Daemon) probeBoot(context.Context) (kernel, initrd string, cleanup func(), err error) {
	m, err := d.images.Newest()
	if err != nil {
		return "", "", nil, err
	}
	binary, err := guestbin.Binary(runtime.GOARCH)
	if err != nil {
		return "", "", nil, err
	}
	dir, err := os.MkdirTemp(string(d.opts.Runtime), "probe-")
	if err != nil {
		return "", "", nil, err
	}
	initrd = filepath.Join(dir, "initrd")
	if err := initramfs.Write(initrd, "", binary, guest.Boot{Version: guest.Version, Mode: guest.Probe}); err != nil {
		os.RemoveAll(dir)
		return "", "", nil, err
	}
	return d.opts.Root.Image(string(m.Ref)).Kernel(), initrd, func() { os.RemoveAll(dir) }, nil
}
