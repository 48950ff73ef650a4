package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const sample = `package m

import "testing"

func TestGood(t *testing.T) { t.Run("sub", func(t *testing.T) {}) }
func TestSkips(t *testing.T) { t.Skip("no KVM: here") }
func TestInner(t *testing.T) { t.Run("linux", func(t *testing.T) { t.Skip("needs a Mac") }) }
`

// runOn runs testsum over a module with one test file, and returns exit code and output.
func runOn(t *testing.T, test string, args ...string) (int, string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.test/m\n\ngo 1.26\n", "m.go": "package m\n", "m_test.go": test,
		"allow": "# comment\n\nm TestSkips the machines of CI have none\nm TestInner another system\n",
		"part":  "m TestSkips the machines of CI have none\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("GOWORK", "off")
	var out, errs bytes.Buffer // two: go test writes to one while we write to the other
	code := run(append(args, "--", "./..."), &out, &errs)
	return code, errs.String() + out.String()
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

func TestSkipsAreListedAndCounted(t *testing.T) {
	code, out := runOn(t, sample, "-name", "unit", "-allow", "allow", "-strict", "-tally", "tally")
	if code != 0 {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{
		"skip example.test/m TestSkips: no KVM: here (expected: the machines of CI have none)",
		"skip example.test/m TestInner/linux: needs a Mac (expected: another system)",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no line %q in\n%s", want, out)
		}
	}
	if got, want := lastLine(out), "unit: 3 passed, 0 failed, 2 skipped"; got != want {
		t.Errorf("last line %q, want %q", got, want)
	}
	if tally, _ := os.ReadFile("tally"); string(tally) != "3 0 2\n" {
		t.Errorf("tally %q", tally)
	}
}

func TestUnexpectedSkipFailsOnlyWhenStrict(t *testing.T) {
	if code, out := runOn(t, sample, "-allow", "part"); code != 0 {
		t.Errorf("not strict: exit %d\n%s", code, out)
	}
	code, out := runOn(t, sample, "-allow", "part", "-strict")
	if code != 1 || !strings.Contains(out, "1 tests skipped that must run here") {
		t.Errorf("strict: exit %d\n%s", code, out)
	}
}

func TestFailuresAreShownInFull(t *testing.T) {
	for name, tt := range map[string]struct{ test, want string }{
		"failure":  {"package m\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { t.Error(\"wrong sum\") }\n", "wrong sum"},
		"panic":    {"package m\n\nimport \"testing\"\n\nfunc TestA(t *testing.T) { panic(\"at the disco\") }\n", "at the disco"},
		"no build": {"package m\n\nfunc TestA(t *testing.T) {}\n", "undefined: testing"},
		"exit":     {"package m\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestA(t *testing.T) { println(\"left\"); os.Exit(3) }\n", "left"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out := runOn(t, tt.test)
			if code != 1 || !strings.Contains(out, tt.want) || strings.Contains(lastLine(out), " 0 failed") {
				t.Errorf("exit %d, want %q in\n%s", code, tt.want, out)
			}
		})
	}
}

func TestRunOfNoTestFails(t *testing.T) {
	if code, out := runOn(t, "package m\n"); code != 1 || !strings.Contains(out, "no test ran") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

func TestBadAllowListIsRefused(t *testing.T) {
	dir := t.TempDir()
	for _, text := range []string{"m TestA\n", "m Test[ broken pattern\n"} {
		file := filepath.Join(dir, "allow")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := readAllowed(file); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}
