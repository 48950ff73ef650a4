package guestbin

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"bromure.io/tui/internal/problem"
)

func TestBinary(t *testing.T) {
	files := fstest.MapFS{
		"bin/README":                    {Data: []byte("words")},
		"bin/bromure-guest-linux-amd64": {Data: []byte("\x7fELF")},
		"bin/bromure-guest-linux-empty": {},
	}
	b, err := binary(files, "amd64")
	if err != nil || string(b) != "\x7fELF" {
		t.Errorf("amd64: %q, %v", b, err)
	}
	for _, arch := range []string{"arm64", "empty", "", "../../etc", "a/../amd64"} {
		b, err := binary(files, arch)
		if err == nil || problem.KindOf(err) != problem.Missing || !strings.Contains(problem.HintOf(err), "make build") {
			t.Errorf("%s: %q, %v (%s, hint %q)", arch, b, err, problem.KindOf(err), problem.HintOf(err))
		}
	}
}

// TestFreshCheckout: the directory to embed is committed, so that a checkout builds before the guest program was.
func TestFreshCheckout(t *testing.T) {
	if _, err := fs.Stat(bin, "bin/README"); err != nil {
		t.Fatal(err)
	}
	if b, err := Binary("amd64"); err == nil && !strings.HasPrefix(string(b), "\x7fELF") {
		t.Error("what was built is no ELF program")
	}
}
