package cpio

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
)

type entry struct {
	name  string
	mode  uint64
	ino   uint64
	nlink uint64
	data  string
	dev   device
}

// parse is an independent reading of the format, from the kernel's init/initramfs.c.
func parse(t *testing.T, b []byte) (out []entry, rest []byte) {
	t.Helper()
	off := 0
	for {
		if off%4 != 0 || len(b)-off < 110 || string(b[off:off+6]) != "070701" {
			t.Fatalf("no header at offset %d", off)
		}
		field := func(i int) uint64 {
			v, err := strconv.ParseUint(string(b[off+6+8*i:off+14+8*i]), 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		size, nameSize := int(field(6)), int(field(11))
		name := b[off+110 : off+110+nameSize]
		if name[nameSize-1] != 0 {
			t.Fatalf("name %q is not terminated", name)
		}
		e := entry{name: string(name[:nameSize-1]), ino: field(0), mode: field(1), nlink: field(4),
			dev: device{uint32(field(9)), uint32(field(10))}}
		for _, i := range []int{2, 3, 5, 7, 8, 12} {
			if field(i) != 0 {
				t.Errorf("%s: field %d is %d", e.name, i, field(i))
			}
		}
		off = (off + 110 + nameSize + 3) &^ 3
		e.data = string(b[off : off+size])
		off = (off + size + 3) &^ 3
		if e.name == trailer {
			return out, b[off:]
		}
		out = append(out, e)
	}
}

func TestRoundTrip(t *testing.T) {
	write := func() []byte {
		var buf bytes.Buffer
		w := NewWriter(&buf)
		for _, err := range []error{
			w.Dir("/bromure", 0o755), w.Dir("bromure/modules", 0o700), w.Dir("bromure", 0o755),
			w.File("/bromure/modules/a.ko", 0o644, []byte("12345")),
			w.File("/init", 0o755, nil),
			w.File("/bromure/boot.json", 0o600, []byte("{}\n ")),
			w.CharDevice("bromure/console", 0o600, 5, 1),
			w.Close(),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		return buf.Bytes()
	}
	b := write()
	if !bytes.Equal(b, write()) {
		t.Error("the same calls gave different bytes")
	}
	got, rest := parse(t, append(b, b...))
	want := []entry{
		{"bromure", 0o040755, 1, 2, "", device{}},
		{"bromure/modules", 0o040700, 2, 2, "", device{}},
		{"bromure/modules/a.ko", 0o100644, 3, 1, "12345", device{}},
		{"init", 0o100755, 4, 1, "", device{}},
		{"bromure/boot.json", 0o100600, 5, 1, "{}\n ", device{}},
		{"bromure/console", 0o020600, 6, 1, "", device{5, 1}},
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if !bytes.Equal(rest, b) {
		t.Error("a second archive does not follow the first at once")
	}
}

func TestRefusals(t *testing.T) {
	for _, name := range []string{"", "/", ".", "..", "../a", "a/../b", "//a", "a//b", "a/", "a\x00b", "missing/a", trailer, strings.Repeat("a", 4096)} {
		w := NewWriter(&bytes.Buffer{})
		if err := w.File(name, 0o644, nil); err == nil {
			t.Errorf("%.20q was taken", name)
		}
		if w.Close() == nil {
			t.Errorf("%.20q: the error did not stick", name)
		}
	}
	w := NewWriter(&bytes.Buffer{})
	if err := errors.Join(w.Dir("a", 0o755), w.Close()); err != nil {
		t.Fatal(err)
	}
	if w.File("b", 0o644, nil) == nil {
		t.Error("a file was added after Close")
	}
}

type fullDisk struct{ left int }

var errFull = errors.New("no space left on device")

func (f *fullDisk) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, errFull
	}
	return len(b), nil
}

func TestWriteErrorSticks(t *testing.T) {
	for left := range 300 {
		w := NewWriter(&fullDisk{left})
		w.Dir("a", 0o755)
		w.File("a/b", 0o644, []byte("data"))
		if err := w.Close(); left < 360 && !errors.Is(err, errFull) {
			t.Fatalf("%d bytes of room: %v", left, err)
		}
	}
}
