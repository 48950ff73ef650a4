package images

import (
	"strings"
	"testing"
)

func TestParseRef(t *testing.T) {
	for _, good := range []string{"debian-12-20261130", "ubuntu-24.04", "a", "0", "a_b.c-d", strings.Repeat("a", 63)} {
		if ref, err := ParseRef(good); err != nil || string(ref) != good {
			t.Errorf("ParseRef(%q) = %q, %v", good, ref, err)
		}
	}
	for _, bad := range []string{
		"", ".", "..", "../canary", "/etc", "a/b", "a\x00", "a\n", "\n", "-rf", ".hidden", "_a", "A", "é", "a b", "a:b", "a\\b", "a*",
		strings.Repeat("a", 64), strings.Repeat("a", 1<<20),
	} {
		if ref, err := ParseRef(bad); err == nil {
			t.Errorf("ParseRef(%.50q) = %q", bad, ref)
		}
	}
}

func TestFind(t *testing.T) {
	m := Manifest{Files: []File{{Name: "base.img", Size: 1}, {Name: "kernel", Size: 2}}}
	if f, ok := m.Find("kernel"); !ok || f.Size != 2 {
		t.Errorf("Find(kernel) = %+v, %v", f, ok)
	}
	if f, ok := m.Find("../kernel"); ok || f != (File{}) {
		t.Errorf("Find of a file that is not there = %+v, %v", f, ok)
	}
}
