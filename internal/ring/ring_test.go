package ring

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func newRing(t *testing.T, max int64) (*Writer, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	return reopen(t, path, max), path
}

func reopen(t *testing.T, path string, max int64) *Writer {
	t.Helper()
	w, err := Open(path, max)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func readAll(t *testing.T, path string, tail int) string {
	t.Helper()
	r, err := Read(path, tail)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func onDisk(t *testing.T, path string) (n int64) {
	t.Helper()
	for _, p := range []string{path, path + ".1"} {
		if fi, err := os.Lstat(p); err == nil {
			n += fi.Size()
			if fi.Mode().Perm() != 0o600 {
				t.Errorf("%s has mode %v", p, fi.Mode())
			}
		}
	}
	return n
}

// After every single write, whatever its shape: the bound holds, and what is there is the
// newest part of everything written, at least half of the bound.
func TestBoundAndNewest(t *testing.T) {
	const max = MinBytes
	shapes := map[string]func(i int) string{
		"lines":         func(i int) string { return fmt.Sprintf("line %d\n", i) },
		"bytes":         func(i int) string { return string(rune('a' + i%26)) },
		"no newline":    func(i int) string { return strings.Repeat("x", 700) },
		"long lines":    func(i int) string { return strings.Repeat("y", 3*max) + "\n" },
		"half lines":    func(i int) string { return strings.Repeat("z", max/2-1) + "\n" },
		"just too long": func(i int) string { return strings.Repeat("w", max/2) + "\n" },
		"blocks":        func(i int) string { return strings.Repeat(fmt.Sprintf("block %d\n", i), 300) },
		"newlines":      func(i int) string { return strings.Repeat("\n", 999) },
		"mixed":         func(i int) string { return strings.Repeat("m", i*i%4099) + []string{"", "\n"}[i%2] },
	}
	for name, shape := range shapes {
		t.Run(name, func(t *testing.T) {
			w, path := newRing(t, max)
			var all []byte
			for i := range 400 {
				s := shape(i)
				if n, err := io.WriteString(w, s); n != len(s) || err != nil {
					t.Fatalf("Write = %d, %v", n, err)
				}
				all = append(all, s...)
				if i%7 != 0 && i < 390 {
					continue
				}
				if n := onDisk(t, path); n > max {
					t.Fatalf("after write %d: %d bytes on disk, the bound is %d", i, n, max)
				}
				got := readAll(t, path, -1)
				if !bytes.HasSuffix(all, []byte(got)) {
					t.Fatalf("after write %d: what is kept is not the end of what was written", i)
				}
				if len(got) < min(len(all), max/2) {
					t.Fatalf("after write %d: only %d bytes are kept", i, len(got))
				}
			}
			if w.Dropped() != 0 {
				t.Errorf("%d bytes were dropped", w.Dropped())
			}
		})
	}
}

func TestWholeLines(t *testing.T) {
	w, path := newRing(t, MinBytes)
	for i := range 1000 {
		fmt.Fprintf(w, "%s %d\n", strings.Repeat("a", i%97), i)
	}
	for _, p := range []string{path, path + ".1"} {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			var a string
			var i int
			if line[0] == ' ' {
				line = "a" + line
			}
			if n, err := fmt.Sscanf(line, "%s %d\n", &a, &i); n != 2 || err != nil || len(a) < i%97 {
				t.Fatalf("%s has a line that is not whole: %q", p, line)
			}
		}
	}
}

func TestTail(t *testing.T) {
	w, path := newRing(t, 1<<20)
	var want []string
	for i := range 40_000 { // across the two files and several blocks of the backward search
		line := fmt.Sprintf("line number %d\n", i)
		io.WriteString(w, line)
		want = append(want, line)
	}
	if _, err := os.Lstat(path + ".1"); err != nil {
		t.Fatal("the ring was not rotated: ", err)
	}
	for _, n := range []int{0, 1, 2, 10, 5000, 20_000} {
		if got := readAll(t, path, n); got != strings.Join(want[len(want)-n:], "") {
			t.Errorf("the last %d lines are %d bytes: %.60q …", n, len(got), got)
		}
	}
	if got, all := readAll(t, path, 1_000_000), readAll(t, path, -1); got != all {
		t.Errorf("a tail longer than the ring has %d bytes, all has %d", len(got), len(all))
	}
	io.WriteString(w, "no end")
	if got := readAll(t, path, 2); got != want[len(want)-1]+"no end" {
		t.Errorf("the last 2 lines, one without an end: %q", got)
	}
	if got := readAll(t, filepath.Join(t.TempDir(), "none"), -1); got != "" {
		t.Errorf("a ring that does not exist has %q", got)
	}
}

func TestReopen(t *testing.T) {
	w, path := newRing(t, MinBytes)
	io.WriteString(w, "one\ntw") // killed in the middle of a line
	w.Close()
	if io.WriteString(w, "late"); w.Dropped() != 4 {
		t.Errorf("a closed writer dropped %d bytes, not 4", w.Dropped())
	}
	w = reopen(t, path, MinBytes)
	io.WriteString(w, "three\n")
	if got := readAll(t, path, -1); got != "one\ntw\nthree\n" {
		t.Errorf("after reopening: %q", got)
	}
}

func TestOpenCuts(t *testing.T) {
	w, path := newRing(t, 1<<20)
	for i := range 60_000 {
		fmt.Fprintf(w, "line %d\n", i)
	}
	w.Close()
	reopen(t, path, 64<<10)
	if n := onDisk(t, path); n > 64<<10 {
		t.Errorf("%d bytes after opening with a bound of %d", n, 64<<10)
	}
	got := readAll(t, path, -1)
	if !strings.HasSuffix(got, "line 59999\n") || !strings.HasPrefix(got, "line ") {
		t.Errorf("kept %.20q … %q", got, got[max(0, len(got)-20):])
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	precious := filepath.Join(dir, "precious")
	if err := os.WriteFile(precious, bytes.Repeat([]byte("p"), 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link", "other"} {
		path := filepath.Join(dir, name)
		target := path
		if name == "other" {
			target = path + ".1"
		}
		if err := os.Symlink(precious, target); err != nil {
			t.Fatal(err)
		}
		if w, err := Open(path, MinBytes); err == nil {
			w.Close()
			t.Errorf("%s: opened through a symbolic link", name)
		}
		if _, err := Read(path, -1); err == nil {
			t.Errorf("%s: read through a symbolic link", name)
		}
	}
	if fi, err := os.Stat(precious); err != nil || fi.Size() != 1<<20 {
		t.Errorf("the link's target was changed: %v, %v", fi.Size(), err)
	}
	if _, err := Open(filepath.Join(dir, "small"), MinBytes-1); err == nil {
		t.Error("opened with too small a bound")
	}
	if _, err := Open(dir, MinBytes); err == nil {
		t.Error("opened a directory")
	}
}
