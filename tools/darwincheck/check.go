package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
)

// checker type-checks listed packages, each once, dependencies first.
type checker struct {
	fset     *token.FileSet
	sizes    types.Sizes
	pkgs     map[string]*listed
	done     map[string]*types.Package
	busy     map[string]bool
	problems map[string]bool // a file that is in a package and in its test variant reports twice
	checked  int
}

func newChecker(pkgs map[string]*listed, goarch string) *checker {
	return &checker{
		fset:     token.NewFileSet(),
		sizes:    types.SizesFor("gc", goarch),
		pkgs:     pkgs,
		done:     map[string]*types.Package{},
		busy:     map[string]bool{},
		problems: map[string]bool{},
	}
}

// checkAll checks every package that was asked for and returns what is wrong, sorted.
func (c *checker) checkAll() []string {
	for _, path := range slices.Sorted(maps.Keys(c.pkgs)) {
		l := c.pkgs[path]
		if l.DepOnly {
			continue
		}
		c.checked++
		if l.Error != nil {
			c.report(path + ": " + l.Error.Err)
		}
		if _, err := c.load(path); err != nil {
			c.report(path + ": " + err.Error())
		}
	}
	return slices.Sorted(maps.Keys(c.problems))
}

func (c *checker) report(problem string) { c.problems[problem] = true }

func (c *checker) load(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if p := c.done[path]; p != nil {
		return p, nil
	}
	l := c.pkgs[path]
	switch {
	case l == nil:
		return nil, fmt.Errorf("package %s is not listed", path)
	case c.busy[path]:
		return nil, fmt.Errorf("import cycle at %s", path)
	}
	c.busy[path] = true
	defer delete(c.busy, path)

	own := !l.DepOnly
	files := c.parse(l, own)
	var info *types.Info
	if own {
		info = newInfo()
	}
	clean := true
	conf := types.Config{
		FakeImportC:      true,
		IgnoreFuncBodies: !own,
		Sizes:            c.sizes,
		Importer: importer(func(p string) (*types.Package, error) {
			if to := l.ImportMap[p]; to != "" {
				p = to
			}
			return c.load(p)
		}),
		// With an error handler the check goes on to the next error. Errors in dependencies are
		// not ours: cgo types that were taken on trust can seem to clash there.
		Error: func(err error) {
			if own {
				clean = false
				c.report(err.Error())
			}
		},
	}
	p, _ := conf.Check(path, c.fset, files, info) // reported by conf.Error
	c.done[path] = p
	if own && clean && p != nil { // passes may panic on code that does not type-check
		c.vet(p, files, info, len(l.CgoFiles) > 0)
	}
	return p, nil
}

func (c *checker) parse(l *listed, own bool) []*ast.File {
	mode := parser.SkipObjectResolution
	if own {
		mode |= parser.ParseComments // the passes read them
	}
	var files []*ast.File
	for _, name := range slices.Concat(l.GoFiles, l.CgoFiles) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(l.Dir, name)
		}
		f, err := parser.ParseFile(c.fset, name, nil, mode)
		if err != nil && own {
			c.report(err.Error())
		}
		if f != nil {
			files = append(files, f)
		}
	}
	return files
}

type importer func(string) (*types.Package, error)

func (f importer) Import(path string) (*types.Package, error) { return f(path) }

func newInfo() *types.Info {
	return &types.Info{
		Types:        map[ast.Expr]types.TypeAndValue{},
		Defs:         map[*ast.Ident]types.Object{},
		Uses:         map[*ast.Ident]types.Object{},
		Implicits:    map[ast.Node]types.Object{},
		Selections:   map[*ast.SelectorExpr]*types.Selection{},
		Scopes:       map[ast.Node]*types.Scope{},
		Instances:    map[*ast.Ident]types.Instance{},
		FileVersions: map[*ast.File]string{},
	}
}
