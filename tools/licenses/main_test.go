package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFileIsUpToDate: what we link today is in the file, in the version that we link.
func TestFileIsUpToDate(t *testing.T) {
	if err := run("../..", false); err != nil {
		t.Error(err)
	}
}

func TestModuleWithoutLicenseIsRefused(t *testing.T) {
	dir := t.TempDir()
	m := &mod{path: "example.test/m", version: "v1.0.0", dir: dir, folders: map[string]bool{".": true, "sub": true}}
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := render([]*mod{m}); err == nil || !strings.Contains(err.Error(), "example.test/m") {
		t.Errorf("no licence file: %v", err)
	}
	for name, text := range map[string]string{"LICENSE.txt": "root text\r\n", "sub/COPYING": "sub text", "licenses.go": "package m"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, err := render([]*mod{m})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"  example.test/m v1.0.0\n", "v1.0.0: LICENSE.txt\n", "\nroot text\n", "v1.0.0: sub/COPYING\n", "\nsub text\n"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(string(out), "package m") {
		t.Error("a Go file was taken for a licence")
	}
}
