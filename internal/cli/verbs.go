package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"bromure.io/tui/internal/control"
	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/internal/verb"
)

func newVM(a *app) *cobra.Command {
	return group("vm", "Run, use and stop the machines of workspaces", nil,
		newRun(a, runRun), newExec(a, runExec), newAttach(a, runAttach),
		newStart(a, runVerb), newStop(a, runVerb), newKill(a, runVerb), newReboot(a, runVerb),
		newLs(a, "List workspaces and what their machines do", false), newDescribe(a), newLogs(a, runLogs), newPorts(a))
}

// verbOptions is a verb without streams, for one workspace after the other.
type verbOptions struct {
	verb    verb.Verb
	refs    []string
	timeout time.Duration
	hard    bool
}

type runVerbFunc func(context.Context, *app, verbOptions) error

func newVerb(a *app, cmd *cobra.Command, o *verbOptions, run runVerbFunc) *cobra.Command {
	cmd.Use += " WORKSPACE..."
	cmd.Args = atLeastOne("the workspace")
	cmd.ValidArgsFunction = a.completeWorkspaces
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.refs = args
		return run(cmd.Context(), a, *o)
	}
	return cmd
}

func newStart(a *app, run runVerbFunc) *cobra.Command {
	o := &verbOptions{verb: verb.Start}
	return newVerb(a, &cobra.Command{
		Use: "start", Short: "Start machines, without attaching to them",
		Example: "  NAME vm start api web",
	}, o, run)
}

func newStop(a *app, run runVerbFunc) *cobra.Command {
	o := &verbOptions{verb: verb.Stop}
	var timeout time.Duration
	cmd := newVerb(a, &cobra.Command{
		Use: "stop", Short: "Stop machines in good order",
		Long:    "Stop machines in good order: programs are asked to end and file systems are unmounted.\nA guest that takes longer than the timeout is ended like by a power cut.",
		Example: "  NAME vm stop api\n  NAME vm stop --timeout 2m api web",
	}, o, run)
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		if cmd.Flags().Changed("timeout") && timeout <= 0 {
			return usage(cmd, "the timeout must be greater than zero")
		}
		o.timeout = timeout
		return nil
	}
	cmd.Flags().DurationVarP(&timeout, "timeout", "t", 0, "how long the guest may take, as in 30s or 2m (default the daemon's)")
	return cmd
}

func newKill(a *app, run runVerbFunc) *cobra.Command {
	o := &verbOptions{verb: verb.Kill}
	return newVerb(a, &cobra.Command{
		Use: "kill", Short: "End machines at once, like a power cut",
		Example: "  NAME vm kill api",
	}, o, run)
}

func newReboot(a *app, run runVerbFunc) *cobra.Command {
	o := &verbOptions{verb: verb.Reboot}
	cmd := newVerb(a, &cobra.Command{
		Use: "reboot", Short: "Restart the systems in machines",
		Example: "  NAME vm reboot api\n  NAME vm reboot --hard api",
	}, o, run)
	cmd.Flags().BoolVar(&o.hard, "hard", false, "like a reset button, without asking the guest")
	return cmd
}

// runVerb does a verb to each workspace and goes on after a failure; the exit code is that of the first one.
func runVerb(ctx context.Context, a *app, o verbOptions) error {
	for _, ref := range o.refs { // before anything is done
		if err := wire.CheckRef(ref); err != nil {
			return err
		}
	}
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	var done []wire.Workspace
	var failed error
	for _, ref := range o.refs {
		last, err := a.do(ctx, c, wire.Do{Verb: string(o.verb), Workspace: ref, Timeout: o.timeout, Hard: o.hard})
		if err != nil {
			if len(o.refs) == 1 || ctx.Err() != nil {
				return err
			}
			code := exitCode(ctx, err)
			a.printError(err, code)
			if failed == nil {
				failed = exitError(code)
			}
			continue
		}
		if last.Workspace != nil {
			done = append(done, *last.Workspace)
		}
		if !a.json() {
			fmt.Fprintln(a.Out, line(ref))
		}
	}
	if a.json() {
		if err := a.printDone(done, len(o.refs) == 1); err != nil {
			return err
		}
	}
	return failed
}

// printDone prints one workspace as an object and several as a list.
func (a *app) printDone(done []wire.Workspace, one bool) error {
	if one && len(done) == 1 {
		return a.printJSON(done[0])
	}
	if done == nil {
		done = []wire.Workspace{}
	}
	return a.printJSON(done)
}

// do carries out a verb and shows its progress.
func (a *app) do(ctx context.Context, c *control.Client, d wire.Do) (wire.Progress, error) {
	what := d.Verb
	if d.Workspace != "" {
		what += " " + d.Workspace
	}
	p := a.progress(what)
	defer p.end()
	return c.Do(ctx, d, p.report)
}

// start starts a workspace's machine and returns it.
func (a *app) start(ctx context.Context, c *control.Client, ref string) (wire.Workspace, error) {
	last, err := a.do(ctx, c, wire.Do{Verb: string(verb.Start), Workspace: ref})
	if err != nil {
		return wire.Workspace{}, a.hintCreate(ctx, c, err, ref)
	}
	if last.Workspace == nil {
		return wire.Workspace{}, problem.New(problem.Failed, "the daemon did not say what it started", "")
	}
	return *last.Workspace, nil
}

// hintCreate says how the workspace is made, if that is what could not be found.
func (a *app) hintCreate(ctx context.Context, c *control.Client, err error, ref string) error {
	if problem.KindOf(err) != problem.NotFound {
		return err
	}
	if _, there := c.Workspace(ctx, ref); problem.KindOf(there) != problem.NotFound {
		return err
	}
	return problem.Wrap(problem.NotFound, err, "", fmt.Sprintf("%s workspaces create %s", a.Name, shellWord(ref)))
}
