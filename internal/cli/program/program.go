// Package program is the program as it is installed: the command tree with the real daemon behind it. It is apart from
// internal/cli so that the tests of commands need not link the machinery.
package program

import (
	"context"
	"errors"
	"os"

	"bromure.io/tui/internal/cli"
	"bromure.io/tui/internal/daemon"
	"bromure.io/tui/internal/failpoint"
	"bromure.io/tui/internal/problem"
)

// Main runs the program under the given name and returns its exit code. front is its TUI; nil: it has none.
func Main(name, version string, front cli.FrontFunc) int {
	return cli.Main(cli.Deps{
		Name: name, Version: version,
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv,
		RunDaemon: runDaemon, Front: front,
	}, os.Args[1:])
}

func runDaemon(ctx context.Context, o cli.DaemonOptions) error {
	opts := daemon.Options{Root: o.Root, Runtime: o.Runtime, Version: o.Version}
	if o.Foreground {
		opts.Log = os.Stderr
	}
	if err := opts.FromEnv(os.Getenv); err != nil {
		return err
	}
	if err := failpoint.FromEnv(os.Getenv); err != nil {
		return problem.Wrap(problem.Usage, err, "", "")
	}
	err := daemon.Run(ctx, opts)
	if errors.Is(err, daemon.ErrRunning) {
		return problem.Wrap(problem.Refused, err, "", "")
	}
	return err
}
