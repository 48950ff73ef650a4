package cli

import (
	"context"

	"github.com/spf13/cobra"

	"bromure.io/tui/internal/control"
	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/vm/guest"
)

type execOptions struct {
	streamFlags
	ref  string
	argv []string
}

func newExec(a *app, run func(context.Context, *app, execOptions) error) *cobra.Command {
	var o execOptions
	cmd := &cobra.Command{
		Use: "exec WORKSPACE [-i] [-t] [-w DIR] [-e KEY=VALUE] [--] COMMAND...", Short: "Run a command in a running workspace",
		Long: `Run a command in a running workspace, as user ubuntu, and exit with its code. No shell takes the arguments apart.

It has a terminal if standard input and output are one. Standard input that is a file or a pipe is
passed on. SIGINT, SIGTERM and SIGHUP are passed on too; then the exit code is 128 plus the signal's number.`,
		Example: `  NAME vm exec api -- make test
  NAME vm exec -w /tmp -e DEBUG=1 api -- sh -c 'echo $DEBUG; pwd'
  NAME vm exec --root api -- apt-get -y install ./tool.deb
  NAME vm exec api -- tar c src | tar x`,
		ValidArgsFunction: a.completeWorkspace,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if o.ref, o.argv, err = a.splitCommand(cmd, args); err != nil {
				return shownHelp(err)
			}
			if len(o.argv) == 0 {
				return usage(cmd, "the command is missing")
			}
			return run(cmd.Context(), a, o)
		},
	}
	cmd.Flags().SetInterspersed(false)
	o.add(cmd)
	return cmd
}

func runExec(ctx context.Context, a *app, o execOptions) error {
	e, err := a.execOf(o.streamFlags, o.argv)
	if err != nil {
		return err
	}
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	return a.exec(ctx, c, o.ref, e, o.interactive)
}

// exec runs a program in the guest and ends with its code.
func (a *app) exec(ctx context.Context, c *control.Client, ref string, e guest.Exec, interactive bool) error {
	stream, err := c.Attach(ctx, ref, wire.Attach{Exec: &e})
	if err != nil {
		return err
	}
	s := session{a: a, stream: stream, tty: e.TTY, stdin: e.TTY || interactive || !isTerminal(a.In)}
	return s.run(ctx)
}
