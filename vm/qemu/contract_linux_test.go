package qemu

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"bromure.io/tui/vm"
	"bromure.io/tui/vm/guest"
	"bromure.io/tui/vm/initramfs"
	"bromure.io/tui/vm/vmtest"
)

// imageVar names the directory of an image (kernel, initrd.img, base.img) for tests that boot Linux.
const imageVar = "BROMURE_TEST_IMAGE"

// linuxImage is the image for tests, or the reason to skip.
func linuxImage(t *testing.T) (kernel, initrd, base string) {
	t.Helper()
	dir := os.Getenv(imageVar)
	if dir == "" {
		t.Skip(imageVar + " names no image: a machine that boots Linux takes one (bromure-cli image build)")
	}
	if _, err := findHost(runtime.GOARCH, os.Getenv("PATH")); err != nil {
		t.Skipf("needs QEMU: %v", err)
	}
	if testing.Short() {
		t.Skip("boots Linux, which takes seconds each time")
	}
	return filepath.Join(dir, "kernel"), filepath.Join(dir, "initrd.img"), filepath.Join(dir, "base.img")
}

// testGuest is the program of vm/vmtest/testguest, built once.
var testGuest = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "testguest")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "testguest")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, "bromure.io/tui/vm/vmtest/testguest")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	return os.ReadFile(out)
})

// testInitrd is the image's initramfs with the test guest as its init.
func testInitrd(t *testing.T, base string) string {
	t.Helper()
	program, err := testGuest()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "initrd")
	if err := initramfs.Write(path, base, program, guest.Boot{Version: guest.Version, Mode: guest.Probe}); err != nil {
		t.Fatal(err)
	}
	return path
}

// linuxHarness boots the test guest with an image's kernel.
func linuxHarness(t *testing.T, format vm.DiskFormat) vmtest.Harness {
	kernel, initrd, base := linuxImage(t)
	initrd = testInitrd(t, initrd)
	return vmtest.Harness{
		Backend: newBackend(t),
		Next:    func() vm.Backend { return newBackend(t) },
		Prepare: func(t *testing.T, spec *vm.Spec) {
			dir := t.TempDir()
			spec.Accelerator = vm.Emulated
			spec.Kernel, spec.Initrd, spec.Cmdline = kernel, initrd, probeCmdline(runtime.GOARCH)
			spec.Disk, spec.Home = filepath.Join(dir, "disk.img"), filepath.Join(dir, "home,=.img")
			spec.Workspace.DiskFormat = format
			sparse(t, spec.Home, 64<<20)
			if format == vm.QCOW2 {
				spec.Backing = base
				overlay(t, spec.Disk)
			} else {
				sparse(t, spec.Disk, 32<<20)
			}
		},
	}
}

func sparse(t *testing.T, path string, size int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err == nil {
		err = f.Truncate(size)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}

func overlay(t *testing.T, path string) {
	t.Helper()
	img, err := exec.LookPath("qemu-img")
	if err != nil {
		t.Skip("needs qemu-img to make an overlay")
	}
	// A backing name that nobody must follow.
	cmd := exec.Command(img, "create", "-q", "-f", "qcow2", "-u", "-F", "raw", "-b", "/nonexistent/base", path, "24G")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func TestContract(t *testing.T) { contract(t, linuxHarness(t, vm.Raw)) }

func contract(t *testing.T, h vmtest.Harness) {
	vmtest.Contract(t, func(*testing.T) vmtest.Harness { return h })
}

func TestOverlayDisk(t *testing.T) {
	vmtest.Disks(t, linuxHarness(t, vm.QCOW2))
}
