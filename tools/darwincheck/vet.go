package main

import (
	"fmt"
	"go/ast"
	"go/types"
	"os"
	"reflect"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/assign"
	"golang.org/x/tools/go/analysis/passes/atomic"
	"golang.org/x/tools/go/analysis/passes/bools"
	"golang.org/x/tools/go/analysis/passes/copylock"
	"golang.org/x/tools/go/analysis/passes/errorsas"
	"golang.org/x/tools/go/analysis/passes/lostcancel"
	"golang.org/x/tools/go/analysis/passes/nilfunc"
	"golang.org/x/tools/go/analysis/passes/printf"
	"golang.org/x/tools/go/analysis/passes/shift"
	"golang.org/x/tools/go/analysis/passes/structtag"
	"golang.org/x/tools/go/analysis/passes/unmarshal"
	"golang.org/x/tools/go/analysis/passes/unreachable"
	"golang.org/x/tools/go/analysis/passes/unusedresult"
)

// analyzers are the passes of "go vet" that need no compiled code and no facts about dependencies.
func analyzers() []*analysis.Analyzer {
	return []*analysis.Analyzer{
		assign.Analyzer, atomic.Analyzer, bools.Analyzer, copylock.Analyzer, errorsas.Analyzer,
		lostcancel.Analyzer, nilfunc.Analyzer, printf.Analyzer, shift.Analyzer, structtag.Analyzer,
		unmarshal.Analyzer, unreachable.Analyzer, unusedresult.Analyzer,
	}
}

// vet runs the passes over one package, each after the passes it requires.
func (c *checker) vet(p *types.Package, files []*ast.File, info *types.Info, cgo bool) {
	results := map[*analysis.Analyzer]any{}
	var run func(a *analysis.Analyzer)
	run = func(a *analysis.Analyzer) {
		if _, ok := results[a]; ok {
			return
		}
		for _, r := range a.Requires {
			run(r)
		}
		pass := c.pass(a, p, files, info)
		for _, r := range a.Requires {
			pass.ResultOf[r] = results[r]
		}
		result, err := a.Run(pass)
		if err != nil {
			c.report(fmt.Sprintf("%s: analyzer %s: %v", p.Path(), a.Name, err))
		}
		results[a] = result
	}
	for _, a := range analyzers() {
		if a == printf.Analyzer && cgo {
			continue // it looks into every assignment, and panics on a C value: those have no type here
		}
		run(a)
	}
}

func (c *checker) pass(a *analysis.Analyzer, p *types.Package, files []*ast.File, info *types.Info) *analysis.Pass {
	facts := map[string]analysis.Fact{}
	key := func(o types.Object, f analysis.Fact) string { return fmt.Sprintf("%p/%v", o, reflect.TypeOf(f)) }
	return &analysis.Pass{
		Analyzer: a, Fset: c.fset, Files: files, Pkg: p, TypesInfo: info, TypesSizes: c.sizes,
		Module: &analysis.Module{}, ResultOf: map[*analysis.Analyzer]any{}, ReadFile: os.ReadFile,
		Report: func(d analysis.Diagnostic) {
			c.report(fmt.Sprintf("%s: %s: %s", c.fset.Position(d.Pos), a.Name, d.Message))
		},
		ImportObjectFact: func(o types.Object, f analysis.Fact) bool {
			v, ok := facts[key(o, f)]
			if ok {
				reflect.ValueOf(f).Elem().Set(reflect.ValueOf(v).Elem())
			}
			return ok
		},
		ExportObjectFact:  func(o types.Object, f analysis.Fact) { facts[key(o, f)] = f },
		ImportPackageFact: func(*types.Package, analysis.Fact) bool { return false },
		ExportPackageFact: func(analysis.Fact) {},
		AllObjectFacts:    func() []analysis.ObjectFact { return nil },
		AllPackageFacts:   func() []analysis.PackageFact { return nil },
	}
}
