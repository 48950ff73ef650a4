// Testsum runs "go test -json" and tells a person what happened: a line per package, the whole
// output of what failed, every skip with its reason, and the sum as the last line.
//
//	testsum -name unit [-v] [-C DIR] [-allow FILE] [-strict] [-tally FILE] -- ARGUMENTS OF GO TEST
//
// A test that skips proves nothing. The allow list (see allow.go) names those that may, each with
// a reason; with -strict any other skip is a failure, and so is a run of no test at all.
//
// Read events.go first. Exit code: 0 all passed, 1 something failed, 2 it could not run.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

type options struct {
	name, dir, allow, tally string
	verbose, strict         bool
}

func run(args []string, stdout, stderr io.Writer) int {
	var o options
	flags := flag.NewFlagSet("testsum", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.name, "name", "tests", "what the sum is called")
	flags.StringVar(&o.dir, "C", "", "run go test in this `directory`")
	flags.StringVar(&o.allow, "allow", "", "`file` that lists the tests that may skip")
	flags.StringVar(&o.tally, "tally", "", "append passed, failed and skipped to this `file`")
	flags.BoolVar(&o.verbose, "v", false, "a line per test, as it ends")
	flags.BoolVar(&o.strict, "strict", false, "fail when a test skips that the list does not name")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	allowed, err := readAllowed(o.allow)
	if err != nil {
		fmt.Fprintln(stderr, "testsum:", err)
		return 2
	}
	cmd := exec.Command("go", append([]string{"test", "-json"}, flags.Args()...)...)
	cmd.Dir, cmd.Stderr = o.dir, stderr
	events, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(stderr, "testsum: run go test:", err)
		return 2
	}
	r := newReport(stdout, o.verbose)
	readErr := r.read(events)
	waitErr := cmd.Wait()
	if readErr != nil {
		fmt.Fprintln(stderr, "testsum: read the events of go test:", readErr)
		return 2
	}
	if _, exited := errors.AsType[*exec.ExitError](waitErr); waitErr != nil && !exited {
		fmt.Fprintln(stderr, "testsum: run go test:", waitErr)
		return 2
	}
	if err := r.addTally(o.tally); err != nil {
		fmt.Fprintln(stderr, "testsum:", err)
		return 2
	}
	good := r.finish(o.name, allowed, o.strict)
	if waitErr != nil || !good {
		return 1
	}
	return 0
}
