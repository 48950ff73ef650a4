package ring

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// On a full disk the writer drops, counts and never complains; when there is room again it goes on with a new line.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k,mode=0700"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	path, ballast := filepath.Join(dir, "log"), filepath.Join(dir, "ballast")
	w := reopen(t, path, 64<<10)
	io.WriteString(w, "before\n")
	f, err := os.Create(ballast)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	f.Close()
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	line := strings.Repeat("w", 999) + "\n"
	for range 200 { // several rotations' worth
		if n, err := io.WriteString(w, line); n != len(line) || err != nil {
			t.Fatalf("Write = %d, %v", n, err)
		}
	}
	if got := w.Dropped(); got < 190_000 || got > 200_000 {
		t.Errorf("%d bytes were dropped", got)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	io.WriteString(w, "after\n")
	got := readAll(t, path, -1)
	if !strings.HasPrefix(got, "before\n") || !strings.HasSuffix(got, "w\nafter\n") {
		t.Errorf("kept %.20q … %q", got, got[max(0, len(got)-20):])
	}
}

// A directory that is in the way of a rotation costs what does not fit, and nothing else.
func TestRotationFails(t *testing.T) {
	w, path := newRing(t, MinBytes)
	if err := os.MkdirAll(filepath.Join(path+".1", "full"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		io.WriteString(w, strings.Repeat("r", 99)+"\n")
	}
	if fi, err := os.Stat(path); err != nil || fi.Size() > MinBytes/2 {
		t.Errorf("the file has %d bytes, %v", fi.Size(), err)
	}
	if w.Dropped() < 7000 {
		t.Errorf("only %d bytes were dropped", w.Dropped())
	}
	if err := os.RemoveAll(path + ".1"); err != nil {
		t.Fatal(err)
	}
	io.WriteString(w, "again\n")
	if got := readAll(t, path, 1); got != "again\n" {
		t.Errorf("after the way is free: %q", got)
	}
}
