package disk

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// What QEMU reads through an overlay after a guest has written to it is the base with those writes; the base stays.
func TestOverlayIsWritten(t *testing.T) {
	if _, err := exec.LookPath("qemu-io"); err != nil {
		t.Skip("qemu-io is not installed")
	}
	for _, size := range []int64{512, 1 << 20, 512 << 20, 512<<20 + 512, 24 << 30, 8 << 40} {
		t.Run(mib(size), func(t *testing.T) {
			dir := t.TempDir()
			base, overlay := filepath.Join(dir, "base.img"), filepath.Join(dir, "disk.img")
			write(t, base, "first bytes of the base")
			if err := os.Truncate(base, size); err != nil {
				if errors.Is(err, os.ErrInvalid) || strings.Contains(err.Error(), "too large") {
					t.Skipf("this file system has no files of %s", mib(size))
				}
				t.Fatal(err)
			}
			r, err := Clone(t.Context(), base, overlay, Options{QCOW2: true, only: Overlay})
			if err != nil || r.Kind != Overlay {
				t.Fatalf("Clone = %v, %v", r, err)
			}
			end := strconv.FormatInt(size-512, 10)
			io := exec.Command("qemu-io", "-f", "qcow2",
				"-c", "read -P 0x66 0 1", // "f"
				"-c", "write -P 0xa5 "+end+" 512",
				"-c", "read -P 0xa5 "+end+" 512", overlay)
			out, err := io.CombinedOutput()
			if err != nil || strings.Contains(string(out), "failed") {
				t.Errorf("qemu-io: %v: %s", err, out)
			}
			qemuImg(t, "check", "-f", "qcow2", overlay)
			f, err := os.Open(base)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			b := make([]byte, 1)
			if _, err := f.ReadAt(b, size-1); err != nil || b[0] != 0 {
				t.Errorf("the base ends with %v, %v", b, err)
			}
		})
	}
}

func TestOverlayRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, size := range []int64{0, 1, 511, 513} {
		base := filepath.Join(dir, "base.img")
		write(t, base, "")
		if err := os.Truncate(base, size); err != nil {
			t.Fatal(err)
		}
		if _, err := Clone(t.Context(), base, filepath.Join(dir, "disk.img"), Options{QCOW2: true, only: Overlay}); err == nil {
			t.Errorf("an overlay on %d bytes was made", size)
		}
	}
	leftOver(t, dir, "base.img")
	f, err := os.Create(filepath.Join(dir, "disk.img"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := writeOverlay(f, 1<<30, strings.Repeat("x", 1024)); err == nil {
		t.Error("a backing path of 1024 bytes was taken")
	}
	if err := writeOverlay(f, 1<<62, "base.img"); err == nil {
		t.Error("a disk of 2^62 bytes was taken")
	}
}

// A name with a colon is a path, not a protocol.
func TestOverlayBackingName(t *testing.T) {
	dir := t.TempDir()
	base, overlay := filepath.Join(dir, "nbd:base.img"), filepath.Join(dir, "disk.img")
	write(t, base, "base")
	if err := os.Truncate(base, 1<<20); err != nil {
		t.Fatal(err)
	}
	if _, err := Clone(t.Context(), base, overlay, Options{QCOW2: true, only: Overlay}); err != nil {
		t.Fatal(err)
	}
	qemuImg(t, "compare", "-f", "raw", "-F", "qcow2", base, overlay)
}
