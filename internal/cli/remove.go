package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bromure.io/tui/internal/control"
	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/internal/verb"
)

// removeOptions is a verb that removes something.
type removeOptions struct {
	verb    verb.Verb
	subject string
	show    bool // only print the plan
	yes     bool // do not ask
}

type runRemoveFunc func(context.Context, *app, removeOptions) error

// newRemove makes the command of a verb that goes by a plan.
func newRemove(a *app, v verb.Verb, cmd *cobra.Command, run runRemoveFunc) *cobra.Command {
	o := removeOptions{verb: v}
	cmd.Long += `

It first prints what goes, what stays and what the way back is, and asks: yes or no where there is a way back, the
name where there is none. --plan prints that and stops; --yes does it without asking. Without a terminal one of the
two is needed.`
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			o.subject = args[0]
		}
		if o.show && o.yes {
			return usage(cmd, "--plan and --yes exclude each other")
		}
		return run(cmd.Context(), a, o)
	}
	cmd.Flags().BoolVar(&o.show, "plan", false, "print the plan and stop")
	cmd.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask")
	return cmd
}

func newReset(a *app, run runRemoveFunc) *cobra.Command {
	return newRemove(a, verb.Reset, &cobra.Command{
		Use: "reset WORKSPACE", Short: "Reset the system disk to the base image; the home stays",
		Long:    "Delete the system disk: the next start clones the base image again. /home/ubuntu stays.",
		Example: "  NAME workspaces reset api --plan\n  NAME workspaces reset api",
		Args:    exactly(1, "the workspace"), ValidArgsFunction: a.completeWorkspace,
	}, run)
}

func newEraseHome(a *app, run runRemoveFunc) *cobra.Command {
	return newRemove(a, verb.EraseHome, &cobra.Command{
		Use: "erase-home WORKSPACE", Short: "Erase /home/ubuntu with every copy of it; the system stays",
		Long:    "Delete /home/ubuntu, the home half of every checkpoint, and the generated key pair. The system disk stays.",
		Example: "  NAME workspaces erase-home api --plan\n  NAME workspaces erase-home api",
		Args:    exactly(1, "the workspace"), ValidArgsFunction: a.completeWorkspace,
	}, run)
}

func newRm(a *app, run runRemoveFunc) *cobra.Command {
	return newRemove(a, verb.Delete, &cobra.Command{
		Use: "rm WORKSPACE", Aliases: []string{"remove", "delete"}, Short: "Delete a workspace with everything that it has",
		Long:    "Delete a workspace: both disks, its secrets, every checkpoint, its keys, logs and settings, and then its MAC address.",
		Example: "  NAME workspaces rm api --plan\n  NAME workspaces rm api\n  NAME workspaces rm -y api",
		Args:    exactly(1, "the workspace"), ValidArgsFunction: a.completeWorkspace,
	}, run)
}

func newImageRm(a *app, run runRemoveFunc) *cobra.Command {
	return newRemove(a, verb.ImageRm, &cobra.Command{
		Use: "rm IMAGE", Aliases: []string{"remove", "delete"}, Short: "Delete a base image that nothing uses",
		Long:    "Delete a base image. One that a workspace's disk is an overlay on is refused.",
		Example: "  NAME image rm debian-12-4f9b5081",
		Args:    exactly(1, "the image"), ValidArgsFunction: a.completeImage,
	}, run)
}

func newPrune(a *app, run runRemoveFunc) *cobra.Command {
	return newRemove(a, verb.ImagePrune, &cobra.Command{
		Use: "prune", Short: "Delete the base images that nothing uses, except the newest",
		Long:    "Delete the base images that no workspace uses. The newest stays: the next workspace starts from it.",
		Example: "  NAME image prune --plan\n  NAME image prune -y",
		Args:    exactly(0, ""), ValidArgsFunction: cobra.NoFileCompletions,
	}, run)
}

func newUninstall(a *app, run runRemoveFunc) *cobra.Command {
	return newRemove(a, verb.Uninstall, &cobra.Command{
		Use: "uninstall", Short: "Delete everything that the program keeps",
		Long:    "Delete every workspace, every base image and all settings, and stop the daemon. The program itself stays.",
		Example: "  NAME uninstall --plan\n  NAME uninstall",
		Args:    exactly(0, ""), ValidArgsFunction: cobra.NoFileCompletions,
	}, run)
}

// runRemove shows the plan, asks, and has it carried out. What is carried out is what was shown: when
// something changes meanwhile, nothing is removed and the new plan is shown.
func runRemove(ctx context.Context, a *app, o removeOptions) error {
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	p, err := c.Plan(ctx, wire.PlanRequest{Verb: o.verb, Subject: o.subject})
	if err != nil {
		return err
	}
	if o.show {
		return a.printPlan(a.Out, p)
	}
	if p.Weigh() == verb.AskNothing {
		if a.json() {
			return a.printJSON(p)
		}
		_, err := fmt.Fprintln(a.Out, "nothing to remove")
		return err
	}
	if !o.yes {
		if err := a.confirm(ctx, p); err != nil {
			return err
		}
	}
	return a.carryOut(ctx, c, p)
}

// carryOut has a confirmed plan carried out and says what is gone.
func (a *app) carryOut(ctx context.Context, c *control.Client, p verb.Plan) error {
	last, err := a.do(ctx, c, wire.Do{Plan: p.ID})
	if last.NewPlan != nil && !a.json() {
		fmt.Fprintln(a.Err, "Nothing was removed: it has changed meanwhile. The plan is now:")
		_ = a.printPlan(a.Err, *last.NewPlan)
	}
	if err == nil && p.Verb == verb.Uninstall {
		err = a.awaitEnd(ctx, c) // the last of what goes is what the daemon itself needs
	}
	if err != nil {
		return err
	}
	if a.json() {
		return a.printJSON(p)
	}
	if a.quiet {
		return nil
	}
	_, err = fmt.Fprintf(a.Out, "%s: done, %s freed\n", line(p.Words(time.Now()).Title), verb.Bytes(p.Own()))
	return err
}

// endPatience is how long a daemon that was told to leave may take.
const endPatience = 30 * time.Second

func (a *app) awaitEnd(ctx context.Context, c *control.Client) error {
	root, _, err := a.place()
	if err != nil {
		return err
	}
	c.Close()
	ctx, cancel := context.WithTimeout(ctx, endPatience)
	defer cancel()
	return control.WaitGone(ctx, root)
}

// printPlan prints a plan in the words that the dialog has as well, or as JSON.
func (a *app) printPlan(w io.Writer, p verb.Plan) error {
	if a.json() {
		return writeJSON(w, p)
	}
	words := p.Words(time.Now())
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", line(words.Title))
	if len(words.Goes) > 0 {
		fmt.Fprintf(&b, "\nThis goes (%s)\n", words.Sum)
		rows := make([][]string, 0, len(words.Goes))
		for _, l := range words.Goes {
			rows = append(rows, []string{"  " + line(l.What), line(l.Path), l.Size, l.Age})
		}
		_ = table(&b, nil, rows)
	}
	if len(words.Stays) > 0 {
		b.WriteString("\nThis stays\n")
		for _, s := range words.Stays {
			fmt.Fprintf(&b, "  %s\n", line(s))
		}
	}
	fmt.Fprintf(&b, "\n%s\n", line(words.WayBack))
	_, err := io.WriteString(w, b.String())
	return err
}

// confirm shows the plan and asks as its weight demands. Anything but the answer means no.
func (a *app) confirm(ctx context.Context, p verb.Plan) error {
	if !isTerminal(a.In) || !isTerminal(a.Err) {
		return problem.New(problem.Refused, "there is no terminal to ask on", "--plan prints what would go; --yes does it without asking.")
	}
	if err := a.printPlan(a.Err, p); err != nil {
		return err
	}
	prompt := "[y/N] "
	if p.Weigh() == verb.AskName {
		prompt = ": "
	}
	fmt.Fprintf(a.Err, "\n%s %s", line(p.Words(time.Now()).Ask), prompt)
	typed := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(a.In).ReadString('\n')
		typed <- text
	}()
	var answer string
	select {
	case answer = <-typed:
	case <-ctx.Done():
		fmt.Fprintln(a.Err)
		return context.Cause(ctx)
	}
	answer = strings.TrimSpace(answer)
	yes := p.Confirms(answer)
	if p.Weigh() == verb.AskYesNo {
		yes = strings.EqualFold(answer, "y") || strings.EqualFold(answer, "yes")
	}
	if !yes {
		return problem.New(problem.Denied, "nothing was removed", "")
	}
	return nil
}
