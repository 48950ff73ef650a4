package vm

import (
	"strings"
	"testing"
)

func TestParseID(t *testing.T) {
	seen := map[ID]bool{}
	for range 100 {
		id := NewID()
		if got, err := ParseID(string(id)); err != nil || got != id || seen[id] {
			t.Fatalf("NewID gave %q: %v", id, err)
		}
		seen[id] = true
		if s := id.Short(); len(s) != ShortIDLen || !strings.HasPrefix(string(id), s) {
			t.Errorf("Short(%s) = %s", id, s)
		}
	}
	good := "0123456789abcdef0123456789abcdef"
	for _, bad := range []string{
		"", ".", "..", "../canary", good[1:], good + "0", strings.ToUpper(good), good[:31] + "g", good[:31] + "/", good[:31] + "\x00",
		good[:30] + "é", " " + good[1:], good[:31] + "\n", strings.Repeat("0", 1<<20),
	} {
		if id, err := ParseID(bad); err == nil {
			t.Errorf("ParseID(%.50q) = %q", bad, id)
		}
	}
	if got, want := ID(good).UUID(), "01234567-89ab-cdef-0123-456789abcdef"; got != want {
		t.Errorf("UUID = %s, want %s", got, want)
	}
	for _, bad := range []ID{"", "x", "../canary"} { // no panic
		if bad.UUID() != string(bad) || bad.Short() != string(bad) {
			t.Errorf("%q: UUID %q, Short %q", bad, bad.UUID(), bad.Short())
		}
	}
}

func TestWorkspaceCheck(t *testing.T) {
	good := Workspace{
		Version: ConfigVersion, ID: NewID(), Name: "web", MAC: NewMAC(),
		CPUs: DefaultCPUs, MemoryMiB: DefaultMemoryMiB, HomeMiB: DefaultHomeMiB,
	}
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	full := good
	full.Image, full.DiskFormat, full.CloneKind, full.Color, full.Notes = "debian-12-20261130", QCOW2, "overlay", "#00ff88", "a\nb"
	full.CPUs, full.MemoryMiB, full.HomeMiB = MaxCPUs, MaxMemoryMiB, MaxHomeMiB
	if err := full.Check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Workspace){
		"ID":                func(w *Workspace) { w.ID = "../canary" },
		"name":              func(w *Workspace) { w.Name = "../canary" },
		"MAC":               func(w *Workspace) { w.MAC = "00:00:00:00:00:00" },
		"no CPU":            func(w *Workspace) { w.CPUs = 0 },
		"too many CPUs":     func(w *Workspace) { w.CPUs = MaxCPUs + 1 },
		"too little memory": func(w *Workspace) { w.MemoryMiB = MinMemoryMiB - 1 },
		"too much memory":   func(w *Workspace) { w.MemoryMiB = MaxMemoryMiB + 1 },
		"too small a home":  func(w *Workspace) { w.HomeMiB = MinHomeMiB - 1 },
		"too large a home":  func(w *Workspace) { w.HomeMiB = MaxHomeMiB + 1 },
		"disk format":       func(w *Workspace) { w.DiskFormat = "vmdk" },
		"image":             func(w *Workspace) { w.Image = "a/b" },
		"color":             func(w *Workspace) { w.Color = "\x1b[31m" },
		"clone kind":        func(w *Workspace) { w.CloneKind = strings.Repeat("k", MaxLabel+1) },
		"notes":             func(w *Workspace) { w.Notes = strings.Repeat("n", MaxNotes+1) },
		"notes, not UTF-8":  func(w *Workspace) { w.Notes = "\xff" },
	} {
		w := good
		change(&w)
		if err := w.Check(); err == nil {
			t.Errorf("a bad %s passes", name)
		} else if len(err.Error()) > 500 {
			t.Errorf("a bad %s: the message has %d bytes", name, len(err.Error()))
		}
	}
}

func TestDefaultMemory(t *testing.T) {
	for host, want := range map[int]int{0: DefaultMemoryMiB, 512: MinMemoryMiB, 2048: 512, 8192: 2048, 16384: 4096, 1 << 20: 4096} {
		if got := DefaultMemory(host); got != want {
			t.Errorf("DefaultMemory(%d) = %d, want %d", host, got, want)
		}
	}
}
