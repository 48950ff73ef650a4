package atomicfile

import (
	"bytes"
	"errors"
	"path/filepath"
	"syscall"
	"testing"
)

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	path := filepath.Join(dir, "f")
	if err := Write(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, bytes.Repeat([]byte("n"), 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Write: %v", err)
	}
	if got := content(t, path); got != "old" {
		t.Errorf("the old content became %d bytes", len(got))
	}
	only(t, dir, "f")
}
