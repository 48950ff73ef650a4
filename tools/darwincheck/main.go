// Darwincheck type-checks the packages of a module, tests included, for a system other than the
// one it runs on, and runs vet passes over them. It needs no C compiler and no SDK, so it also
// checks packages that use cgo, or import packages that do.
//
//	darwincheck [-goos darwin] [-goarch arm64] [-C dir] [packages]
//
// How: "go list" with CGO_ENABLED=1 names the files of that system (listing compiles nothing),
// and go/types checks them from source. In a file that imports "C" every C.x is taken to exist
// (types.Config.FakeImportC). Of dependencies only the declarations are checked. What this does not
// prove: that C parts compile, and that anything runs.
//
// Read load.go first, then check.go. Exit code: 0 clean, 1 problems, 2 it could not run.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"time"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("darwincheck", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var target target
	flags.StringVar(&target.goos, "goos", "darwin", "check for this system")
	flags.StringVar(&target.goarch, "goarch", "arm64", "and this architecture")
	flags.StringVar(&target.dir, "C", ".", "run in this `directory`")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	patterns := flags.Args()
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	start := time.Now()
	pkgs, err := target.list(patterns)
	if err != nil {
		fmt.Fprintln(stderr, "darwincheck:", err)
		return 2
	}
	c := newChecker(pkgs, target.goarch)
	problems := c.checkAll()
	for _, p := range problems {
		fmt.Fprintln(stdout, p)
	}
	fmt.Fprintf(stderr, "darwincheck: %d packages for %s/%s, %d problems, %v\n",
		c.checked, target.goos, target.goarch, len(problems), time.Since(start).Round(time.Millisecond))
	switch {
	case len(problems) > 0:
		return 1
	case c.checked == 0: // a check of nothing proves nothing
		fmt.Fprintln(stderr, "darwincheck: no package matches", patterns)
		return 2
	}
	return 0
}
