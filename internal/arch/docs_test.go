package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// contract is a document and the code that it describes: every string constant that the code holds at
// that place stands in the document, so that a new path, route or call cannot be forgotten there.
type contract struct {
	doc    string
	dir    string
	wanted func(name, value string) bool // by the constant's name, "" for a literal in an expression
}

var contracts = []contract{
	{"docs/data-on-disk.md", "internal/layout", func(_, v string) bool { return fileName.MatchString(v) }},
	{"docs/control-socket.md", "internal/control/wire", func(n, _ string) bool { return strings.HasPrefix(n, "Path") && n != "Prefix" }},
	{"docs/guest-channel.md", "vm/guest", func(n, _ string) bool {
		return strings.HasPrefix(n, "Method") || strings.HasPrefix(n, "Step") || strings.HasSuffix(n, "Channel") || strings.HasSuffix(n, "Name")
	}},
}

// fileName is what a file or folder below a root is called.
var fileName = regexp.MustCompile(`^\.?[a-z][a-z-]*(\.[a-z]+)?-?$`)

// notFiles are literals of internal/layout that look like names of files and are none.
var notFiles = map[string]bool{"darwin": true, "home": true}

func TestDocumentsNameWhatTheCodeHas(t *testing.T) {
	for _, c := range contracts {
		doc, err := os.ReadFile(filepath.Join("../..", c.doc))
		if err != nil {
			t.Error(err)
			continue
		}
		found := 0
		for name, value := range literals(t, filepath.Join("../..", c.dir)) {
			if notFiles[value] || !c.wanted(name, value) {
				continue
			}
			found++
			if !strings.Contains(string(doc), value) {
				t.Errorf("%s does not mention %q (%s in %s)", c.doc, value, name, c.dir)
			}
		}
		if found < 5 {
			t.Errorf("%s: only %d names found in %s: this test looks at the wrong place", c.doc, found, c.dir)
		}
	}
}

// literals are the string literals of a package by the name of their constant; others have a name of
// their own place. A concatenation with a constant gives its literal part.
func literals(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		value := func(e ast.Expr) (string, bool) {
			if b, ok := e.(*ast.BinaryExpr); ok {
				e = b.Y
			}
			lit, ok := e.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return "", false
			}
			s, err := strconv.Unquote(lit.Value)
			return s, err == nil
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ImportSpec:
				return false
			case *ast.ValueSpec:
				for i, name := range n.Names {
					if i < len(n.Values) {
						if v, ok := value(n.Values[i]); ok {
							out[name.Name] = v
						}
					}
				}
				return false
			case *ast.Field:
				return false // tags
			case *ast.BasicLit:
				if v, ok := value(n); ok {
					out[fset.Position(n.Pos()).String()] = v
				}
			}
			return true
		})
	}
	return out
}

var link = regexp.MustCompile(`\]\(([^)#]+)(?:#[^)]*)?\)`)

// TestLinksInDocumentsResolve: relative links only; there is no net to ask.
func TestLinksInDocumentsResolve(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".md" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		seen++
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if !exists(filepath.Join(filepath.Dir(path), m[1])) {
				t.Errorf("%s links to %s, which is not there", path, m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 4 {
		t.Errorf("only %d documents found", seen)
	}
}

var makeTarget = regexp.MustCompile("`make ([a-z0-9-]+)")

// TestDocumentsNameTargetsThatExist holds README.md and ARCHITECTURE.md to the Makefile.
func TestDocumentsNameTargetsThatExist(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, doc := range []string{"README.md", "ARCHITECTURE.md"} {
		text, err := os.ReadFile(filepath.Join("../..", doc))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, m := range makeTarget.FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(string(makefile), "\n"+m[1]+":") {
				t.Errorf("%s names make %s, which does not exist", doc, m[1])
			}
		}
	}
}

var e2eRun = regexp.MustCompile("`make e2e RUN='?([A-Za-z|\\\\]+)'?`")

// TestProofsInTheReadmeExist: each test that the README names as a proof is there.
func TestProofsInTheReadmeExist(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("../../e2e/*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		tests.Write(data)
	}
	found := 0
	for _, m := range e2eRun.FindAllStringSubmatch(string(readme), -1) {
		for _, name := range strings.Split(strings.ReplaceAll(m[1], `\`, ""), "|") { // a table wants "\|"
			found++
			if !strings.Contains(tests.String(), "\nfunc "+name+"(") {
				t.Errorf("README.md names %s as a proof, and e2e/ has no such test", name)
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d proofs found", found)
	}
}
