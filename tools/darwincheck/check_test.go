package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// module writes a module into a temporary directory: a package for every system, one file of it
// for darwin that uses cgo, and a test of it.
func module(t *testing.T, change map[string]string) string {
	t.Helper()
	files := map[string]string{
		"go.mod":  "module example.test/m\n\ngo 1.26\n",
		"a/a.go":  "// Package a is checked.\npackage a\n\n// Free says how many bytes are free.\nfunc Free() int { return free() }\n",
		"a/l.go":  "//go:build linux\n\npackage a\n\nfunc free() int { return 1 }\n",
		"a/d.go":  "//go:build darwin\n\npackage a\n\n// #include <sys/mount.h>\nimport \"C\"\n\nfunc free() int { var s C.struct_statfs; return int(s.f_bfree) }\n",
		"a/dt.go": "//go:build darwin\n\npackage a\n\nimport \"fmt\"\n\nfunc show() { fmt.Printf(\"%d\\n\", Free()) }\n",
		"a/darwin_test.go": "package a\n\nimport \"testing\"\n\nfunc TestFree(t *testing.T) {\n" +
			"\tif Free() < 0 {\n\t\tt.Error(\"negative\")\n\t}\n\tshow()\n}\n",
	}
	for name, text := range change {
		files[name] = text
	}
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func check(t *testing.T, dir string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Setenv("GOFLAGS", "-mod=mod")
	t.Setenv("GOWORK", "off")
	var out, errs bytes.Buffer
	code = run(append([]string{"-C", dir}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

func TestCleanModulePasses(t *testing.T) {
	code, out, errs := check(t, module(t, nil))
	if code != 0 || out != "" {
		t.Fatalf("exit %d\n%s%s", code, out, errs)
	}
}

func TestInjectedErrorsAreReported(t *testing.T) {
	for name, tt := range map[string]struct{ file, text, want string }{
		"type error in a darwin file": {
			"a/dt.go", "package a\n\nfunc show() { var s string = Free(); _ = s }\n", "cannot use Free()"},
		"missing function": {
			"a/dt.go", "package a\n\nfunc show() { nothing() }\n", "undefined: nothing"},
		"type error beside cgo": {
			"a/d.go", "//go:build darwin\n\npackage a\n\nimport \"C\"\n\nfunc free() int { return \"no\" }\n", "cannot use \"no\""},
		"wrong format verb": {
			"b/b.go", "package b\n\nimport \"fmt\"\n\nfunc Show(n int) { fmt.Printf(\"%s\\n\", n) }\n", "printf: "},
		"type error in a test": {
			"a/darwin_test.go", "package a\n\nimport \"testing\"\n\nfunc TestFree(t *testing.T) { t.Error(Free() + \"x\") }\n", "mismatched types"},
		"syntax error": {
			"a/dt.go", "package a\n\nfunc show() {\n", "expected '}'"},
		"import of nothing": {
			"a/dt.go", "package a\n\nimport _ \"example.test/m/none\"\n\nfunc show() {}\n", "example.test/m/none"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := check(t, module(t, map[string]string{tt.file: tt.text}))
			if code != 1 || !strings.Contains(out, tt.want) {
				t.Errorf("exit %d, want 1 and %q in\n%s%s", code, tt.want, out, errs)
			}
		})
	}
}

// An error that only another system has must not be reported for this one.
func TestOtherSystemsFilesAreLeftOut(t *testing.T) {
	dir := module(t, map[string]string{"a/l.go": "//go:build linux\n\npackage a\n\nfunc free() int { return \"no\" }\n"})
	if code, out, _ := check(t, dir); code != 0 {
		t.Errorf("darwin: exit %d\n%s", code, out)
	}
	if code, out, _ := check(t, dir, "-goos", "linux", "-goarch", "amd64"); code != 1 {
		t.Errorf("linux: exit %d\n%s", code, out)
	}
}

func TestNothingToCheckIsAnError(t *testing.T) {
	dir := module(t, nil)
	if code, _, errs := check(t, dir, "./none/..."); code == 0 {
		t.Errorf("exit 0 for no package\n%s", errs)
	}
}

// The product itself: a copy of this check with an error put into it must fail, so that a clean
// answer in continuous integration means something.
func TestErrorInACopyOfTheProductIsFound(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, part := range []string{"go.mod", "go.sum", "internal/problem", "internal/layout"} {
		copyTree(t, filepath.Join(root, part), filepath.Join(dir, part))
	}
	if code, out, errs := check(t, dir); code != 0 {
		t.Fatalf("the copy is not clean: exit %d\n%s%s", code, out, errs)
	}
	bad := "//go:build darwin\n\npackage layout\n\nvar _ Root = Root(\"\").Lost()\n"
	if err := os.WriteFile(filepath.Join(dir, "internal/layout/bad.go"), []byte(bad), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, errs := check(t, dir)
	if code != 1 || !strings.Contains(out, "Lost undefined") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
}

func copyTree(t *testing.T, from, to string) {
	t.Helper()
	info, err := os.Stat(from)
	if err != nil {
		t.Fatal(err)
	}
	if info.IsDir() {
		if err := os.CopyFS(to, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
		return
	}
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
