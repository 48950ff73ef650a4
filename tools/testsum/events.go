package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// event is one line of "go test -json"; see "go doc test2json".
type event struct {
	Action     string
	Package    string
	ImportPath string // of build-output
	Test       string
	Elapsed    float64 // seconds
	Output     string
}

// skip is a test that skipped.
type skip struct{ pkg, test, reason string }

// report collects events and prints what a person needs.
type report struct {
	w       io.Writer
	verbose bool

	passed, failed int
	skips          []skip
	output         map[string][]string // by package and test, until it ends
	tests          map[string]int      // how many tests a package ran
}

func newReport(w io.Writer, verbose bool) *report {
	return &report{w: w, verbose: verbose, output: map[string][]string{}, tests: map[string]int{}}
}

// read takes events until the end. A line that is no event is shown as it is.
func (r *report) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil && e.Action != "" {
				r.take(e)
			} else {
				r.w.Write(line)
			}
		}
		if err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func (r *report) take(e event) {
	key := e.Package + "\x00" + e.Test
	switch e.Action {
	case "build-output":
		io.WriteString(r.w, e.Output)
	case "output":
		r.output[key] = append(r.output[key], e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.endPackage(e, r.output[key])
		} else {
			r.endTest(e, r.output[key])
		}
		delete(r.output, key)
	}
}

func (r *report) endTest(e event, output []string) {
	r.tests[e.Package]++
	switch e.Action {
	case "pass":
		r.passed++
	case "fail":
		r.failed++
		r.dump(e.Package+" "+e.Test, output)
	case "skip":
		r.skips = append(r.skips, skip{e.Package, e.Test, reason(output)})
	}
	if r.verbose {
		fmt.Fprintf(r.w, "%-4s %s %s\n", e.Action, e.Test, seconds(e.Elapsed))
	}
}

// endPackage prints the package's line. A package that fails without a failed test (a panic, a
// timeout, a build that failed) has its reason in its own output and in that of unfinished tests.
func (r *report) endPackage(e event, output []string) {
	n := r.tests[e.Package]
	switch e.Action {
	case "pass":
		fmt.Fprintf(r.w, "ok   %s %s, %d tests\n", e.Package, seconds(e.Elapsed), n)
	case "fail":
		r.failed++
		for key, lines := range r.output {
			if pkg, test, _ := strings.Cut(key, "\x00"); pkg == e.Package && test != "" {
				r.dump(pkg+" "+test+" (did not end)", lines)
				delete(r.output, key)
			}
		}
		r.dump(e.Package, output)
	}
}

func (r *report) dump(what string, output []string) {
	fmt.Fprintf(r.w, "FAIL %s\n", what)
	for _, line := range output {
		io.WriteString(r.w, "     "+line)
	}
}

// reason is what a test said when it skipped: its last line that is not the runner's own.
func reason(output []string) string {
	for i := len(output) - 1; i >= 0; i-- {
		line := strings.TrimSpace(output[i])
		if line == "" || strings.HasPrefix(line, "---") || strings.HasPrefix(line, "===") {
			continue
		}
		if _, msg, ok := strings.Cut(line, ".go:"); ok { // "file_test.go:12: message"
			if _, msg, ok = strings.Cut(msg, ": "); ok {
				return msg
			}
		}
		return line
	}
	return "no reason given"
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(10 * time.Millisecond).String()
}

// addTally appends the counts for whoever adds them up.
func (r *report) addTally(path string) error {
	if path == "" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, r.passed, r.failed, len(r.skips))
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// finish lists the skips and prints the sum. It says whether the run may count as a success.
func (r *report) finish(name string, allowed []rule, strict bool) bool {
	unexpected := 0
	for _, s := range r.skips {
		rule, ok := match(allowed, s)
		why := "expected: " + rule.reason
		if !ok {
			unexpected++
			why = "not in the list of tests that may skip"
		}
		fmt.Fprintf(r.w, "skip %s %s: %s (%s)\n", s.pkg, s.test, s.reason, why)
	}
	good := r.failed == 0
	if unexpected > 0 && strict {
		good = false
		fmt.Fprintf(r.w, "%s: %d tests skipped that must run here\n", name, unexpected)
	}
	if r.passed+r.failed == 0 {
		good = false
		fmt.Fprintf(r.w, "%s: no test ran\n", name)
	}
	fmt.Fprintf(r.w, "%s: %d passed, %d failed, %d skipped\n", name, r.passed, r.failed, len(r.skips))
	return good
}
