package qemu

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"bromure.io/tui/vm"
	"bromure.io/tui/vm/guest"
	"bromure.io/tui/vm/vmtest"
	"bromure.io/tui/vm/vmtest/echo"
)

// A guest that writes when the host's disk is full stands still and loses nothing: it goes on when
// there is room again.
func TestHostDiskFull(t *testing.T) {
	h := linuxHarness(t, vm.Raw)
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("needs a small file system: mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	spec := vmtest.NewSpec(t)
	h.Prepare(t, &spec)
	spec.Home = filepath.Join(dir, "home.img")
	sparse(t, spec.Home, 16<<20)
	m := start(t, newBackend(t), spec)
	waitLine(t, m.Serial(), guest.ProbeMarker)

	filler := filepath.Join(dir, "filler")
	fill(t, filler)
	text := bytes.Repeat([]byte("precious "), 6000)
	if _, err := m.NIC().Write(echo.Request(echo.Write, append([]byte(vm.HomeSerial+"\x00"), text...))); err != nil {
		t.Fatal(err)
	}
	waitEvent(t, m, vm.HostDiskFull)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := m.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, echo.MaxFrame)
	for done := false; !done; {
		n, err := m.NIC().Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		op, reply, ok := echo.Parse(buf[:n])
		if done = ok && op == echo.WriteOK; done && len(bytes.Trim(reply, "\x00")) > 0 {
			t.Errorf("the guest's write failed: %s", reply)
		}
	}
	kill(t, m)
	disk, err := os.ReadFile(spec.Home)
	if err != nil || !bytes.Contains(disk, text) {
		t.Errorf("what was written is not on the disk (%v)", err)
	}
}

// fill leaves no room on a file system.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
}
