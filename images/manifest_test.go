package images

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func whole() Manifest {
	sum := strings.Repeat("0a", 32)
	return Manifest{
		Version: 1, Ref: "debian-12-0a0a0a0a", Distro: "debian", Suite: "bookworm", Release: "12", Architecture: "amd64", Kernel: "6.1.0-57-cloud-amd64",
		Created: time.Date(2026, 11, 30, 1, 2, 3, 0, time.UTC), Source: "built", Packages: []Package{{"bash", "5.2<3>"}},
		Files: []File{{BaseFile, LogicalSize, sum, 1 << 20}, {KernelFile, 5, sum, 4096}, {InitrdFile, 6, sum, 4096}},
	}
}

func TestManifestRoundTrip(t *testing.T) {
	want := whole()
	data, err := want.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseManifest(data, want.Ref)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	again, _ := got.Marshal()
	if string(again) != string(data) {
		t.Error("it is written differently the second time")
	}
}

func TestManifestRefusals(t *testing.T) {
	for name, change := range map[string]func(*Manifest){
		"newer":              func(m *Manifest) { m.Version = ManifestVersion + 1 },
		"no version":         func(m *Manifest) { m.Version = 0 },
		"of image":           func(m *Manifest) { m.Ref = "other" },
		"names 2 files":      func(m *Manifest) { m.Files = m.Files[:2] },
		"does not name base": func(m *Manifest) { m.Files[0].Name = "../base.img" },
		"negative":           func(m *Manifest) { m.Files[1].Size = -1 },
		"checksum":           func(m *Manifest) { m.Files[1].SHA256 = "0a" },
		"checksum of":        func(m *Manifest) { m.Files[2].SHA256 = strings.Repeat("g", 64) },
	} {
		m := whole()
		change(&m)
		data, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		_, err = ParseManifest(data, whole().Ref)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if name == "newer" && !errors.Is(err, ErrNewer) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, data := range []string{"", "{", "[]", `{"version":"1"}`, strings.Repeat(" ", MaxManifest+1)} {
		if _, err := ParseManifest([]byte(data), "a"); err == nil {
			t.Errorf("%.10q was taken", data)
		}
	}
}

func TestContentRef(t *testing.T) {
	files := whole().Files
	a, err := ContentRef("debian", "12", files)
	if err != nil || !strings.HasPrefix(string(a), "debian-12-") || len(a) != len("debian-12-")+8 {
		t.Fatalf("%s, %v", a, err)
	}
	if b, _ := ContentRef("debian", "12", []File{files[2], files[0], files[1]}); b != a {
		t.Error("the order of the files matters")
	}
	files[1].SHA256 = strings.Repeat("0b", 32)
	if b, _ := ContentRef("debian", "12", files); b == a {
		t.Error("another kernel has the same reference")
	}
	if _, err := ContentRef("../x", "12", files); err == nil {
		t.Error("a reference leads out of the store")
	}
}
