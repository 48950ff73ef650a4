package arch

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "bromure.io/tui"

// pkg is a package of the module, without its tests: what any supported system builds of it.
type pkg struct {
	path    string // relative to the module; "." for its root
	dir     string
	imports map[string][]string // import path → files that import it, relative to the module
	cgo     []string            // files that import "C"
	files   []string            // absolute
}

// systems are those that the product is built for. Files for any other would escape the tests, so
// TestEveryFileIsBuiltSomewhere refuses them.
var systems = []string{"linux", "darwin"}

// graph is the union over all systems. It is loaded once: "go list" takes a second.
var graph = sync.OnceValues(func() (map[string]*pkg, error) {
	root, err := filepath.Abs("../..")
	if err != nil {
		return nil, err
	}
	all := map[string]*pkg{}
	for _, goos := range systems {
		if err := addSystem(all, root, goos); err != nil {
			return nil, err
		}
	}
	return all, nil
})

func load(t *testing.T) map[string]*pkg {
	t.Helper()
	all, err := graph()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 5 {
		t.Fatalf("only %d packages found", len(all))
	}
	return all
}

func addSystem(all map[string]*pkg, root, goos string) error {
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Dir,GoFiles,CgoFiles", "./...")
	cmd.Dir = root
	// cgo on: a file that uses it must not hide. Listing needs no C compiler.
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+runtime.GOARCH, "CGO_ENABLED=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return errors.Join(err, errors.New(stderr.String()))
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var l struct {
			ImportPath, Dir   string
			GoFiles, CgoFiles []string
		}
		if err := dec.Decode(&l); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		path := strings.TrimPrefix(strings.TrimPrefix(l.ImportPath, module), "/")
		if path == "" {
			path = "."
		}
		p := all[path]
		if p == nil {
			p = &pkg{path: path, dir: l.Dir, imports: map[string][]string{}}
			all[path] = p
		}
		for _, name := range slices.Concat(l.GoFiles, l.CgoFiles) {
			file := filepath.Join(l.Dir, name)
			if slices.Contains(p.files, file) {
				continue
			}
			p.files = append(p.files, file)
			imports, err := importsOf(file)
			if err != nil {
				return err
			}
			rel, _ := filepath.Rel(root, file)
			for _, i := range imports {
				if i == "C" {
					p.cgo = append(p.cgo, rel)
					continue
				}
				p.imports[i] = append(p.imports[i], rel)
			}
		}
	}
}

// ours are the packages of this module that p imports, by their path in it, sorted.
func (p *pkg) ours() []string {
	var out []string
	for i := range p.imports {
		if rel, ok := strings.CutPrefix(i, module+"/"); ok {
			out = append(out, rel)
		}
	}
	slices.Sort(out)
	return out
}

// reach is everything of ours that p is built from, itself included.
func reach(all map[string]*pkg, from string) []string {
	seen := map[string]bool{}
	var walk func(string)
	walk = func(path string) {
		if seen[path] || all[path] == nil {
			return
		}
		seen[path] = true
		for _, i := range all[path].ours() {
			walk(i)
		}
	}
	walk(from)
	out := make([]string, 0, len(seen))
	for path := range seen {
		out = append(out, path)
	}
	slices.Sort(out)
	return out
}

// within says whether path is one of the patterns: a package, or with "/..." a package and all below it.
func within(path string, patterns []string) bool {
	for _, pat := range patterns {
		base, tree := strings.CutSuffix(pat, "/...")
		if path == base || tree && strings.HasPrefix(path, base+"/") {
			return true
		}
	}
	return false
}
