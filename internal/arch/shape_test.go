package arch

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// maxLines is where a file has grown a second subject. The aim is 400; what is between may finish its thought.
const maxLines = 450

func TestFilesStayShort(t *testing.T) {
	for _, p := range load(t) {
		for _, file := range p.files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if n := bytes.Count(data, []byte("\n")); n > maxLines {
				t.Errorf("%s/%s has %d lines, the limit is %d: find its second subject and split there", p.path, filepath.Base(file), n, maxLines)
			}
		}
	}
}

func TestEveryPackageHasOneComment(t *testing.T) {
	for _, p := range load(t) {
		var with []string
		for _, file := range p.files {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.PackageClauseOnly|parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if f.Doc != nil {
				with = append(with, filepath.Base(file))
			}
		}
		if len(p.files) > 0 && len(with) != 1 {
			t.Errorf("%s: package comments in %q, want exactly one", p.path, with)
		}
	}
}

// TestEveryFileIsBuiltSomewhere: a file that no supported system builds is checked by nobody.
func TestEveryFileIsBuiltSomewhere(t *testing.T) {
	all := load(t)
	built := map[string]bool{}
	for _, p := range all {
		for _, file := range p.files {
			built[file] = true
		}
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			// As the go command does: no testdata, no hidden folders, no other modules.
			if path != root && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") || strings.HasPrefix(d.Name(), "_") || exists(filepath.Join(path, "go.mod"))) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || built[path] || isException(path, root) {
			return nil
		}
		t.Errorf("%s is built for none of %q", path, systems)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// isException lists files that are for other systems on purpose: what a package answers where it
// cannot work.
func isException(path, root string) bool {
	rel, _ := filepath.Rel(root, path)
	return strings.HasSuffix(rel, "_other.go") // "!linux && !darwin"
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestCgoIsInOneRoom: cgo costs cross-compilation and memory safety.
func TestCgoIsInOneRoom(t *testing.T) {
	for _, p := range load(t) {
		if len(p.cgo) > 0 && p.path != "vm/vz" {
			t.Errorf("%q import \"C\"; only vm/vz may", p.cgo)
		}
	}
}

func importsOf(file string) ([]string, error) {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, spec := range f.Imports {
		path, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		out = append(out, path)
	}
	return out, nil
}

// TestNoInitAndNoDotImports: state that no one passes, and names that no one can find.
func TestNoInitAndNoDotImports(t *testing.T) {
	for _, p := range load(t) {
		for _, file := range p.files {
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, spec := range f.Imports {
				if spec.Name != nil && spec.Name.Name == "." {
					t.Errorf("%s/%s: dot import of %s", p.path, filepath.Base(file), spec.Path.Value)
				}
			}
			if slices.ContainsFunc(f.Decls, isInit) {
				t.Errorf("%s/%s: func init; pass what is needed instead", p.path, filepath.Base(file))
			}
		}
	}
}

func isInit(d ast.Decl) bool {
	fn, ok := d.(*ast.FuncDecl)
	return ok && fn.Recv == nil && fn.Name.Name == "init"
}
