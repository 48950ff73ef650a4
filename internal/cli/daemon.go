package cli

import (
	"context"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"bromure.io/tui/internal/control"
	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/internal/ring"
)

func newDaemon(a *app) *cobra.Command {
	return group("daemon", "Look at and stop the background process", nil,
		newDaemonRun(a), newDaemonStatus(a), newDaemonStop(a, runDaemonStop), newDaemonLogs(a))
}

func newDaemonRun(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "run", Short: "Be the daemon", Hidden: true, Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			root, rt, err := a.place()
			if err != nil {
				return err
			}
			syscall.Umask(0o077) // every file is made with its final mode; this is for what others make for us
			err = a.RunDaemon(cmd.Context(), DaemonOptions{Root: root, Runtime: rt, Version: a.Version, Foreground: !a.quiet})
			if problem.KindOf(err) == problem.Refused && a.quiet {
				return exitError(control.ExitLost) // another front was quicker
			}
			return err
		},
	}
}

type daemonStatus struct {
	Running bool `json:"running"`
	*wire.Health
	Socket string `json:"socket,omitempty"`
}

func newDaemonStatus(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "status", Short: "Say whether the daemon runs; exit code 6 if not", Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return runDaemonStatus(cmd.Context(), a) },
	}
}

func runDaemonStatus(ctx context.Context, a *app) error {
	c, err := a.find(ctx)
	if control.NotRunning(err) {
		if a.json() {
			if err := a.printJSON(daemonStatus{}); err != nil {
				return err
			}
		} else if !a.quiet {
			fmt.Fprintln(a.Out, "no daemon is running")
		}
		return exitError(exitUnreachable)
	}
	if err != nil {
		return err
	}
	defer c.Close()
	h, err := c.Health(ctx)
	if err != nil {
		return err
	}
	if a.json() {
		return a.printJSON(daemonStatus{Running: true, Health: &h, Socket: c.Socket()})
	}
	if a.quiet {
		_, err := fmt.Fprintln(a.Out, h.PID)
		return err
	}
	return fields(a.Out, [][2]string{
		{"Running", age(time.Since(h.Started))},
		{"Version", h.Version},
		{"PID", fmt.Sprint(h.PID)},
		{"Data", string(h.Root)},
		{"Socket", c.Socket()},
	})
}

type daemonStopOptions struct {
	machines bool
	timeout  time.Duration
}

func newDaemonStop(a *app, run func(context.Context, *app, daemonStopOptions) error) *cobra.Command {
	var o daemonStopOptions
	cmd := &cobra.Command{
		Use: "stop", Short: "Stop the daemon; machines go on running",
		Long:    "Stop the daemon. It finishes what is in progress. Machines go on running, without a network, and the next\ndaemon takes them over; with --machines they are stopped first.",
		Example: "  NAME daemon stop\n  NAME daemon stop --machines",
		Args:    exactly(0, ""),
		RunE:    func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), a, o) },
	}
	cmd.Flags().BoolVar(&o.machines, "machines", false, "stop the machines first")
	cmd.Flags().DurationVarP(&o.timeout, "timeout", "t", 5*time.Minute, "how long to wait until it is gone")
	return cmd
}

func runDaemonStop(ctx context.Context, a *app, o daemonStopOptions) error {
	root, _, err := a.place()
	if err != nil {
		return err
	}
	quiet := a.quiet
	a.quiet = true // another version is no news to one who stops it
	c, err := a.find(ctx)
	a.quiet = quiet
	if control.NotRunning(err) {
		return a.sayStopped("no daemon is running")
	}
	if err != nil {
		return err
	}
	defer c.Close()
	p := a.progress("daemon stop")
	defer p.end()
	err = c.Shutdown(ctx, wire.Shutdown{Machines: o.machines}, p.report)
	if err != nil {
		return err
	}
	c.Close()
	p.report(wire.Progress{Step: "wait for it to finish"})
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	if err := control.WaitGone(ctx, root); err != nil {
		return err
	}
	p.end()
	return a.sayStopped("stopped")
}

func (a *app) sayStopped(text string) error {
	if a.json() {
		return a.printJSON(daemonStatus{})
	}
	if !a.quiet {
		fmt.Fprintln(a.Out, text)
	}
	return nil
}

func newDaemonLogs(a *app) *cobra.Command {
	o := logsOptions{kind: wire.DaemonLog}
	tail := ""
	cmd := &cobra.Command{
		Use: "logs", Short: "Show the daemon's log", Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if o.q.Tail, err = parseTail(tail); err != nil {
				return usage(cmd, "%s", err)
			}
			return runDaemonLogs(cmd.Context(), a, o)
		},
	}
	cmd.Flags().BoolVarP(&o.q.Follow, "follow", "f", false, "wait for more")
	cmd.Flags().StringVarP(&tail, "tail", "n", "all", "only the last so many lines")
	cmd.Flags().BoolVar(&o.raw, "raw", false, "print the bytes as they are")
	return cmd
}

// runDaemonLogs reads the files itself: a log is wanted most when the daemon that wrote it is gone.
func runDaemonLogs(ctx context.Context, a *app, o logsOptions) error {
	root, _, err := a.place()
	if err != nil {
		return err
	}
	open := ring.Read
	if o.q.Follow {
		open = func(path string, tail int) (io.ReadCloser, error) { return ring.Follow(ctx, path, tail) }
	}
	log, err := open(root.DaemonLog(), o.q.Tail)
	if err != nil {
		return fmt.Errorf("read the daemon's log: %w", err)
	}
	return a.printLog(ctx, log, o)
}
