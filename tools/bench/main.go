// Bench measures what the project promises about speed and size, each figure beside a reference
// that was taken in the same minutes: the runs of the two alternate, so that a busy host slows both.
//
//	go run ./tools/bench -bin DIR -image DIR [-n N] [-work DIR] [FIGURE…]
//
// figure.go says how a figure is made; each file beside it takes the figures of one subject. `make bench` builds
// what is needed and runs them all. Figures that need root (loop mounts) or a program that the host lacks are
// reported as not taken, with the reason.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// bench is what every figure may use.
type bench struct {
	bin   string // folder of the programs
	image string // folder of a base image
	work  string // folder for what a measurement leaves, removed at the end
	n     int    // runs of each side
	log   io.Writer
}

// subjects are the groups of figures, in the order in which they are taken.
var subjects = []struct {
	name string
	what string
	take func(context.Context, *bench) ([]figure, error)
}{
	{"memory", "the daemon without a machine, and the command's own start", takeMemory},
	{"disks", "a workspace's disks from a 24 GB base", takeDisks},
	{"start", "from vm run to the output of the first command", takeStart},
	{"exec", "a command in a running workspace", takeExec},
	{"net", "between guest and host", takeNet},
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	b := &bench{log: stderr}
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&b.bin, "bin", "bin", "`folder` of the programs")
	flags.StringVar(&b.image, "image", "", "`folder` of a base image")
	flags.IntVar(&b.n, "n", 7, "runs of each side")
	work := flags.String("work", os.TempDir(), "`folder` for temporary files, 3 GiB free")
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: bench [flags] [subject…]")
		flags.PrintDefaults()
		for _, s := range subjects {
			fmt.Fprintf(stderr, "  %-8s %s\n", s.name, s.what)
		}
	}
	if err := flags.Parse(args); err != nil {
		return 2
	}
	fail := func(err error) int {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	if b.n < 1 {
		return fail(fmt.Errorf("-n %d: it takes at least one run", b.n))
	}
	for _, p := range []*string{&b.bin, &b.image} {
		abs, err := filepath.Abs(*p)
		if err != nil {
			return fail(err)
		}
		*p = abs
	}
	var err error
	if b.work, err = os.MkdirTemp(*work, "brm-bench-"); err != nil {
		return fail(err)
	}
	defer os.RemoveAll(b.work)

	code, taken := 0, 0
	for _, s := range subjects {
		if flags.NArg() > 0 && !slices.Contains(flags.Args(), s.name) {
			continue
		}
		taken++
		fmt.Fprintf(stderr, "== %s: %s\n", s.name, s.what)
		figures, err := s.take(ctx, b)
		for _, f := range figures {
			fmt.Fprintln(stdout, f.line())
		}
		if err != nil {
			fmt.Fprintf(stdout, "%-44s not taken: %v\n", s.name, err)
			code = 1
		}
		if ctx.Err() != nil {
			return fail(ctx.Err())
		}
	}
	if taken == 0 {
		return fail(fmt.Errorf("no subject is called %s", strings.Join(flags.Args(), " or ")))
	}
	return code
}
