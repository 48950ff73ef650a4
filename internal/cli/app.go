// Package cli is the command tree of bromure-cli and bromure-tui: thin commands that ask the daemon
// and print what it says. One hidden command is the daemon itself.
//
// A command is an options struct, a constructor that fills it from flags and arguments, and a function that carries it
// out; parsing is tested apart from running. Everything that came from a guest, a user or a file passes
// internal/printable before it is printed. Read app.go first, then root.go, exit.go and session.go (streams).
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"bromure.io/tui/internal/control"
	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/layout"
)

// Deps are what the command tree is run with.
type Deps struct {
	Name    string // of the program, for help and hints: "bromure-cli"
	Version string

	In, Out, Err *os.File
	Getenv       func(string) string

	// RunDaemon is the daemon's whole life. An error of kind problem.Refused means that another one
	// has this data root.
	RunDaemon func(ctx context.Context, o DaemonOptions) error
	// Front is the TUI, which the program shows on a terminal when it has no arguments; nil: it has none.
	Front FrontFunc

	// DaemonCommand is how a front starts the daemon; nil: this program with control.DaemonArgs.
	DaemonCommand []string
}

// FrontFunc shows a front until it is left. connect finds the daemon or starts one; in and out are a terminal.
type FrontFunc = func(ctx context.Context, connect func(context.Context) (*control.Client, error), in, out *os.File, getenv func(string) string) error

// DaemonOptions are what `daemon run` passes on.
type DaemonOptions struct {
	Root       layout.Root
	Runtime    layout.Runtime
	Version    string
	Foreground bool // repeat on standard error what goes to the log
}

// app is what commands share: dependencies and the flags that all of them have.
type app struct {
	Deps
	signals *signals

	output string // -o: "text" or "json"
	quiet  bool   // -q
}

// Main runs the program and returns its exit code.
func Main(d Deps, args []string) int {
	sig, ctx := catchSignals(context.Background())
	defer sig.stop()
	a := &app{Deps: d, signals: sig}
	root := newRoot(a)
	root.SetArgs(args)
	root.SetIn(d.In)
	root.SetOut(d.Out)
	root.SetErr(d.Err)
	err := root.ExecuteContext(ctx)
	code := exitCode(ctx, err)
	if wantsJSON(args) { // also where an error in another flag came first
		a.output = "json"
	}
	_, said := errors.AsType[exitError](err)
	_, known := err.(signalError) // whoever sent it knows
	if err != nil && !said && !known {
		a.printError(err, code)
	}
	return code
}

// wantsJSON looks for -o json among the program's own arguments.
func wantsJSON(args []string) bool {
	for i, arg := range args {
		switch arg {
		case "--":
			return false
		case "-ojson", "-o=json", "--output=json":
			return true
		case "-o", "--output":
			if i+1 < len(args) && args[i+1] == "json" {
				return true
			}
		}
	}
	return false
}

func (a *app) json() bool { return a.output == "json" }

func (a *app) place() (layout.Root, layout.Runtime, error) {
	root, err := layout.DefaultRoot(a.Getenv)
	if err != nil {
		return "", "", fmt.Errorf("find the data directory: %w", err)
	}
	return root, layout.RuntimeFor(root, a.Getenv, os.Getuid()), nil
}

// connect finds the daemon, or starts one.
func (a *app) connect(ctx context.Context) (*control.Client, error) { return a.dial(ctx, true) }

// connectQuietly is connect for a front that has the screen: nothing may be printed on it.
func (a *app) connectQuietly(ctx context.Context) (*control.Client, error) {
	silent := *a
	silent.quiet = true
	return silent.dial(ctx, true)
}

// find finds the daemon if one runs.
func (a *app) find(ctx context.Context) (*control.Client, error) { return a.dial(ctx, false) }

func (a *app) dial(ctx context.Context, start bool) (*control.Client, error) {
	root, rt, err := a.place()
	if err != nil {
		return nil, err
	}
	return control.Connect(ctx, control.Options{
		Root: root, Runtime: rt, Version: a.Version, Start: start, Command: a.DaemonCommand, Skew: a.noteSkew,
	})
}

func (a *app) noteSkew(h wire.Health) {
	if a.json() || a.quiet {
		return
	}
	fmt.Fprintf(a.Err, "note: the daemon is version %s, this is %s. To change over: %s daemon stop, then this again. Machines go on running.\n",
		line(h.Version), a.Version, a.Name)
}
