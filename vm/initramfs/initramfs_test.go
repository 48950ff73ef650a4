package initramfs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"bromure.io/tui/internal/cpio"
	"bromure.io/tui/vm/guest"
)

func boot() guest.Boot {
	return guest.Boot{
		Version: guest.Version, Mode: guest.Workspace, Hostname: "demo", Now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC),
		DiskSerial: "bromure-disk", HostKey: "secret", Env: map[string]string{"A": "1", "B": "2"},
	}
}

// file is an entry of an archive.
type file struct {
	name         string
	mode         uint64
	major, minor uint64
	data         string
}

// unpack reads concatenated archives as the kernel's init/initramfs.c does: zeroes between archives are skipped, headers
// begin at a multiple of 4 bytes.
func unpack(t *testing.T, b []byte) (out []file) {
	t.Helper()
	for off := 0; off < len(b); {
		if b[off] == 0 {
			off++
			continue
		}
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
		f := file{mode: field(1), major: field(9), minor: field(10)}
		f.name = strings.TrimSuffix(string(b[off+110:off+110+nameSize]), "\x00")
		off = (off + 110 + nameSize + 3) &^ 3
		f.data = string(b[off : off+size])
		off = (off + size + 3) &^ 3
		if f.name != "TRAILER!!!" {
			out = append(out, f)
		}
	}
	return out
}

func write(t *testing.T, base string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "initrd.img")
	if err := Write(path, base, []byte("\x7fELF program"), boot()); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(path)
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, %v", st.Mode(), err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestWrite(t *testing.T) {
	words, err := json.Marshal(boot())
	if err != nil {
		t.Fatal(err)
	}
	own := []file{
		{name: "bromure", mode: 0o040755},
		{name: "dev", mode: 0o040755},
		{name: "dev/console", mode: 0o020600, major: 5, minor: 1},
		{name: "dev/null", mode: 0o020666, major: 1, minor: 3},
		{name: "init", mode: 0o100755, data: "\x7fELF program"},
		{name: "bromure/boot.json", mode: 0o100600, data: string(words)},
	}
	alone := write(t, "")
	if d := cmp.Diff(own, unpack(t, alone), cmp.AllowUnexported(file{})); d != "" {
		t.Error(d)
	}
	if !bytes.Equal(alone, write(t, "")) {
		t.Error("the same input gave different bytes")
	}
	if len(alone)%4 != 0 {
		t.Errorf("%d bytes", len(alone))
	}

	// Behind an image's part of any length; the padding of cpio.Writer's own output is 4.
	for _, extra := range []int{0, 1, 3, 4, 255} {
		var image bytes.Buffer
		w := cpio.NewWriter(&image)
		if err := errors.Join(w.Dir("bromure", 0o755), w.Dir("bromure/modules", 0o755), w.File("bromure/modules/order", 0o644, []byte("a.ko\n")), w.Close()); err != nil {
			t.Fatal(err)
		}
		image.Write(make([]byte, extra))
		base := filepath.Join(t.TempDir(), "base")
		if err := os.WriteFile(base, image.Bytes(), 0o444); err != nil {
			t.Fatal(err)
		}
		b := write(t, base)
		want := append(unpack(t, image.Bytes()), own...)
		if d := cmp.Diff(want, unpack(t, b), cmp.AllowUnexported(file{})); d != "" {
			t.Errorf("%d bytes more: %s", extra, d)
		}
		if at := len(b) - len(alone); at%align != 0 || !bytes.Equal(b[at:], alone) || !bytes.HasPrefix(b, image.Bytes()) {
			t.Errorf("%d bytes more: the boot archive begins at %d", extra, at)
		}
	}
}

// TestGolden: the bytes of an archive do not depend on the machine, the time or the file system.
func TestGolden(t *testing.T) {
	var b bytes.Buffer
	if err := archive(&b, []byte("program"), []byte("{}")); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b.Bytes())
	const want = "ae2777df9347c69c5f1a68a9e42d487efdce4a1a3c3449bdc088a831782dde61"
	if got := hex.EncodeToString(sum[:]); got != want {
		t.Errorf("SHA-256 %s, want %s", got, want)
	}
}

func TestWriteRefuses(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	taken := filepath.Join(dir, "taken")
	for path, text := range map[string]string{empty: "", taken: "old"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, path, base string
		program          []byte
	}{
		{"a path that is taken", taken, "", []byte("x")},
		{"no program", filepath.Join(dir, "a"), "", nil},
		{"no base", filepath.Join(dir, "b"), filepath.Join(dir, "missing"), []byte("x")},
		{"an empty base", filepath.Join(dir, "c"), empty, []byte("x")},
		{"a base that is a directory", filepath.Join(dir, "d"), dir, []byte("x")},
		{"no directory", filepath.Join(dir, "no", "e"), "", []byte("x")},
	} {
		if err := Write(c.path, c.base, c.program, boot()); err == nil {
			t.Errorf("%s: no error", c.name)
		}
		if _, err := os.Stat(c.path); err == nil && c.path != taken {
			t.Errorf("%s: a file stayed", c.name)
		}
	}
	if b, err := os.ReadFile(taken); err != nil || string(b) != "old" {
		t.Errorf("the file that was there is now %q, %v", b, err)
	}
}

// TestFullDisk: no half of an archive stays.
func TestFullDisk(t *testing.T) {
	w := &failing{}
	if err := archive(w, []byte("program"), []byte("{}")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("%v", err)
	}
	path := "/dev/full"
	if _, err := os.Stat(path); err != nil {
		t.Skip("this system has no /dev/full")
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	base := filepath.Join(t.TempDir(), "base")
	if err := os.WriteFile(base, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := appendBase(f, base); err == nil {
		t.Error("a full disk took it")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, os.ErrClosed }
