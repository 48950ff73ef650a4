package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/printable"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm/guest"
)

type logsOptions struct {
	ref  string
	kind layout.LogKind
	q    wire.LogQuery
	raw  bool
}

func newLogs(a *app, run func(context.Context, *app, logsOptions) error) *cobra.Command {
	o := logsOptions{}
	kind, tail := "", ""
	cmd := &cobra.Command{
		Use: "logs WORKSPACE", Short: "Show a log of a workspace",
		Long: `Show a log of a workspace:

  serial    what the guest's kernel and console print
  guest     what the program in the guest reports
  refusals  outbound connections that were refused, one JSON object a line
  machine   what the hypervisor's process prints

Control characters are shown as escapes, unless --raw is given.`,
		Example: "  NAME vm logs api\n  NAME vm logs -f --kind refusals api\n  NAME vm logs --tail 20 api",
		Args:    exactly(1, "the workspace"), ValidArgsFunction: a.completeWorkspace,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.ref, o.kind = args[0], layout.LogKind(kind)
			if !slices.Contains(layout.LogKinds, o.kind) {
				return usage(cmd, "unknown kind of log %q; there are %v", kind, layout.LogKinds)
			}
			var err error
			if o.q.Tail, err = parseTail(tail); err != nil {
				return usage(cmd, "%s", err)
			}
			return run(cmd.Context(), a, o)
		},
	}
	f := cmd.Flags()
	f.StringVarP(&kind, "kind", "k", string(layout.SerialLog), "which log")
	f.BoolVarP(&o.q.Follow, "follow", "f", false, "wait for more")
	f.StringVarP(&tail, "tail", "n", "all", "only the last so many lines")
	f.BoolVar(&o.raw, "raw", false, "print the bytes as they are")
	_ = cmd.RegisterFlagCompletionFunc("kind", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		var kinds []string
		for _, k := range layout.LogKinds {
			kinds = append(kinds, string(k))
		}
		return kinds, cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

func parseTail(s string) (int, error) {
	if s == "all" {
		return -1, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("not a number of lines: %q", s)
	}
	return n, nil
}

func runLogs(ctx context.Context, a *app, o logsOptions) error {
	if err := wire.CheckRef(o.ref); err != nil {
		return err
	}
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	log, err := c.Logs(ctx, o.ref, o.kind, o.q)
	if err != nil {
		return err
	}
	return a.printLog(ctx, log, o)
}

// printLog copies a log until its end, or until the user has seen enough of one that is followed.
func (a *app) printLog(ctx context.Context, log io.ReadCloser, o logsOptions) (err error) {
	defer log.Close()
	if o.raw {
		_, err = io.Copy(a.Out, log)
	} else {
		w := printable.NewWriter(a.Out)
		_, err = io.Copy(w, log)
		err = errors.Join(err, w.Flush())
	}
	switch {
	case ctx.Err() != nil && o.q.Follow:
		return context.Cause(ctx) // ctrl-c is how one stops following
	case errors.Is(err, io.ErrUnexpectedEOF):
		return problem.New(problem.Unreachable, "the daemon went away in the middle", "")
	}
	return err
}

func newPorts(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "ports WORKSPACE", Short: "List what listens in a workspace",
		Args: exactly(1, "the workspace"), ValidArgsFunction: a.completeWorkspace,
		RunE: func(cmd *cobra.Command, args []string) error { return runPorts(cmd.Context(), a, args[0]) },
	}
}

func runPorts(ctx context.Context, a *app, ref string) error {
	if err := wire.CheckRef(ref); err != nil {
		return err
	}
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	ports, err := c.Ports(ctx, ref)
	if err != nil {
		return err
	}
	switch {
	case a.json():
		return a.printJSON(ports)
	case a.quiet:
		for _, p := range ports {
			fmt.Fprintln(a.Out, p.Port)
		}
		return nil
	}
	var rows [][]string
	for _, p := range ports {
		rows = append(rows, []string{strconv.Itoa(p.Port), p.Proto, portAddress(p), orDash(portProcess(p))})
	}
	return table(a.Out, []string{"PORT", "PROTO", "ADDRESS", "PROCESS"}, rows)
}

func portAddress(p guest.Port) string {
	if p.Loopback {
		return p.Address + " (loopback)"
	}
	return p.Address
}

func portProcess(p guest.Port) string {
	if p.Process == "" || p.PID == 0 {
		return p.Process
	}
	return fmt.Sprintf("%s (%d)", p.Process, p.PID)
}

func portLine(p guest.Port) string {
	return fmt.Sprintf("%d %s %s %s", p.Port, p.Proto, portAddress(p), portProcess(p))
}
