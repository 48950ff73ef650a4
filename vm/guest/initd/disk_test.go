package initd

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"
)

func TestFindDisk(t *testing.T) {
	disks := []disk{{"vda", "bromure-home"}, {"vdb", "bromure-disk"}, {"vdc", ""}, {"vdd", "twice"}, {"vde", "twice"}}
	for _, c := range []struct {
		serial, name string
		ok, bad      bool
	}{
		{"bromure-disk", "vdb", true, false},
		{"bromure-home", "vda", true, false},
		{"bromure", "", false, false}, // no part of a serial will do
		{"bromure-disk2", "", false, false},
		{"twice", "", false, true},
	} {
		d, ok, err := findDisk(disks, c.serial)
		if (err != nil) != c.bad || ok != c.ok || d.name != c.name {
			t.Errorf("%s: %v, %v, %v", c.serial, d, ok, err)
		}
	}
	if d := (disk{"vdb", "x"}); d.path() != "/dev/vdb" {
		t.Error(d.path())
	}
}

func TestListDisks(t *testing.T) {
	if got := listDisks(nil); got != "there is none at all" {
		t.Error(got)
	}
	if got := listDisks([]disk{{"vda", "a\n"}, {"vdb", ""}}); got != `there are: vda "a\n", vdb ""` {
		t.Error(got)
	}
}

// head is the beginning of a disk with an ext4 on it.
func head(state uint16, compat uint32) []byte {
	b := make([]byte, 4096)
	binary.LittleEndian.PutUint16(b[superOffset+offMagic:], superMagic)
	binary.LittleEndian.PutUint16(b[superOffset+offState:], state)
	binary.LittleEndian.PutUint32(b[superOffset+offCompat:], compat)
	return b
}

func TestClassify(t *testing.T) {
	luks := make([]byte, headSize)
	copy(luks, "LUKS\xba\xbe")
	btrfs := make([]byte, headSize)
	copy(btrfs[64<<10+64:], "_BHRfS_M")
	last := make([]byte, headSize)
	last[headSize-1] = 1
	for _, c := range []struct {
		name  string
		head  []byte
		want  content
		check bool
	}{
		{"clean, with a journal", head(stateValid, compatJournal), ext4, false},
		{"in use when the power went, with a journal", head(0, compatJournal), ext4, false},
		{"errors found", head(stateValid|stateError, compatJournal), ext4, true},
		{"clean, no journal", head(stateValid, 0), ext4, false},
		{"in use when the power went, no journal", head(0, 0), ext4, true},
		{"all zero", make([]byte, headSize), blank, false},
		{"zero, but only the beginning was read", make([]byte, 4096), foreign, false},
		{"LUKS", luks, foreign, false},
		{"btrfs", btrfs, foreign, false},
		{"one byte at the end", last, foreign, false},
		{"text", bytes.Repeat([]byte("data"), headSize/4), foreign, false},
		{"nothing read", nil, foreign, false},
		{"cut in the super block", head(stateValid, compatJournal)[:superOffset+superSize-1], foreign, false},
	} {
		if got, check := classify(c.head); got != c.want || check != c.check {
			t.Errorf("%s: %v, check %v; want %v, %v", c.name, got, check, c.want, c.check)
		}
	}
}

func FuzzClassify(f *testing.F) {
	f.Add(head(stateValid, compatJournal))
	f.Add(make([]byte, 4096))
	f.Fuzz(func(t *testing.T, b []byte) {
		if c, _ := classify(b); c == blank && len(bytes.Trim(b, "\x00")) != 0 {
			t.Error("data was called blank")
		}
	})
}

func TestChecked(t *testing.T) {
	for status, want := range map[int]string{
		0: "", 1: "", 2: "", 3: "", 4: "not repaired", 5: "not repaired", 12: "not repaired", 8: "failed", 16: "failed", 128: "failed", -1: "failed",
	} {
		err := checked(status)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d: %v, want %q", status, err, want)
		}
	}
}
