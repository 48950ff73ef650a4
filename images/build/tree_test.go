package build

import (
	"archive/tar"
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func tarOf(t *testing.T, headers ...tar.Header) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		content := ""
		if h.Typeflag == tar.TypeReg {
			content = "content of " + h.Name
			h.Size = int64(len(content))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return &b
}

func TestReadTar(t *testing.T) {
	tr := newTree()
	err := tr.readTar(tarOf(t,
		tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755},
		tar.Header{Name: "./etc/", Typeflag: tar.TypeDir, Mode: 0o755},
		tar.Header{Name: "./etc/shadow", Typeflag: tar.TypeReg, Mode: 0o640, Gid: 42},
		tar.Header{Name: "./dev/", Typeflag: tar.TypeDir, Mode: 0o755},
		tar.Header{Name: "./dev/null", Typeflag: tar.TypeChar, Mode: 0o666, Devmajor: 1, Devminor: 3},
		tar.Header{Name: "./bin", Typeflag: tar.TypeSymlink, Linkname: "usr/bin"},
		tar.Header{Name: "./etc/same", Typeflag: tar.TypeLink, Linkname: "./etc/shadow"},
		tar.Header{Name: "./ping", Typeflag: tar.TypeReg, Mode: 0o755, PAXRecords: map[string]string{
			"SCHILY.xattr.security.capability": "caps", "SCHILY.xattr.user.other": "x"}},
	), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{".", "bin", "dev", "etc", "etc/same", "etc/shadow", "ping"}, tr.paths()); d != "" {
		t.Error(d)
	}
	if got, err := tr.read("etc/same"); err != nil || got != "content of ./etc/shadow" {
		t.Errorf("%q, %v", got, err)
	}
	if n := tr["etc/shadow"]; n.mode != 0o640 || n.gid != 42 {
		t.Errorf("%+v", n)
	}
	if d := cmp.Diff(map[string]string{"security.capability": "caps"}, tr["ping"].xattrs); d != "" {
		t.Error(d)
	}
}

func TestReadTarRefusals(t *testing.T) {
	for name, h := range map[string]tar.Header{
		"climbs out":    {Name: "../../etc/passwd", Typeflag: tar.TypeReg},
		"newline":       {Name: "a\nwrite /etc/shadow b", Typeflag: tar.TypeReg},
		"no directory":  {Name: "missing/file", Typeflag: tar.TypeReg},
		"dangling link": {Name: "link", Typeflag: tar.TypeLink, Linkname: "gone"},
		"odd type":      {Name: "odd", Typeflag: 'Z'},
	} {
		if err := newTree().readTar(tarOf(t, h), t.TempDir()); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	whole := tarOf(t, tar.Header{Name: "a", Typeflag: tar.TypeReg, Mode: 0o644}).Bytes()
	if err := newTree().readTar(bytes.NewReader(whole[:520]), t.TempDir()); err == nil {
		t.Error("half an archive was taken")
	}
}

func TestTreeChanges(t *testing.T) {
	tr := newTree()
	tr.put("a/b/c", 0o644, "1")
	tr.put("a/bb", 0o644, "2")
	tr.put("x/old", 0o644, "3")
	if err := tr.move("a/b", "x"); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{".", "a", "a/bb", "x", "x/c"}, tr.paths()); d != "" {
		t.Error(d)
	}
	tr.remove("a")
	tr.empty("x")
	tr.remove("nothing")
	if d := cmp.Diff([]string{".", "x"}, tr.paths()); d != "" {
		t.Error(d)
	}
	if err := tr.move("gone", "x"); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Error(err)
	}
	if err := tr.edit("x", strings.ToUpper); err == nil {
		t.Error("a directory was edited")
	}
	if _, err := tr.read("x/c"); !os.IsNotExist(err) && err == nil {
		t.Error(err)
	}
}
