package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"bromure.io/tui/internal/control"
	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm/guest"
)

type attachOptions struct {
	ref     string
	console string
	keys    string
}

func newAttach(a *app, run func(context.Context, *app, attachOptions) error) *cobra.Command {
	var o attachOptions
	cmd := &cobra.Command{
		Use: "attach WORKSPACE", Short: "Attach to a console of a running workspace",
		Long: `Attach to a console of a running workspace: a terminal session that the guest holds, so that detaching
and losing the connection end nothing. One that does not exist is made, with a shell in it.

ctrl-p ctrl-q detaches; --detach-keys takes other keys, separated by commas: a letter, ctrl-x, ctrl-], or "" for none.`,
		Example: "  NAME vm attach api\n  NAME vm attach --console build api\n  NAME vm attach --detach-keys ctrl-] api",
		Args:    exactly(1, "the workspace"), ValidArgsFunction: a.completeWorkspace,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.ref = args[0]
			if _, err := parseDetachKeys(o.keys); err != nil {
				return usage(cmd, "%s", err)
			}
			return run(cmd.Context(), a, o)
		},
	}
	cmd.Flags().StringVar(&o.console, "console", guest.DefaultConsole, "name of the console")
	cmd.Flags().StringVar(&o.keys, "detach-keys", defaultDetachKeys, "keys that detach")
	return cmd
}

func runAttach(ctx context.Context, a *app, o attachOptions) error {
	if err := wire.CheckRef(o.ref); err != nil {
		return err
	}
	if !isTerminal(a.In) || !isTerminal(a.Out) {
		return problem.New(problem.Usage, "a console needs a terminal as standard input and output", "Use vm exec to run a command without one.")
	}
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return a.attach(ctx, c, o)
}

func (a *app) attach(ctx context.Context, c *control.Client, o attachOptions) error {
	_, err := a.attachConsole(ctx, c, o)
	return err
}

// attachConsole is attach; detached says that the user left the console while it goes on.
func (a *app) attachConsole(ctx context.Context, c *control.Client, o attachOptions) (detached bool, err error) {
	keys, err := parseDetachKeys(o.keys)
	if err != nil {
		return false, err
	}
	stream, err := c.Attach(ctx, o.ref, wire.Attach{Console: &guest.Console{Name: o.console, Size: a.windowSize(), Term: a.Getenv("TERM")}})
	if err != nil {
		return false, err
	}
	s := session{a: a, stream: stream, tty: true, stdin: true, console: true, keys: keys}
	err = s.run(ctx)
	if !errors.Is(err, errDetached) {
		return false, err
	}
	if !a.quiet {
		again := a.Name + " vm attach "
		if o.console != guest.DefaultConsole {
			again += "--console " + shellWord(o.console) + " "
		}
		fmt.Fprintf(a.Err, "detached; what runs there goes on. Back: %s%s\n", again, shellWord(o.ref))
	}
	return true, nil
}
