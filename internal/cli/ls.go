package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/vm"
)

type lsOptions struct {
	running bool
	disks   bool // columns for disks instead of load
}

func newLs(a *app, short string, disks bool) *cobra.Command {
	o := lsOptions{disks: disks}
	all := false
	cmd := &cobra.Command{
		Use: "ls", Short: short, Aliases: []string{"list", "ps"}, Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if all && o.running {
				return usage(cmd, "--all and --running exclude each other")
			}
			return runLs(cmd.Context(), a, o)
		},
	}
	cmd.Flags().BoolVarP(&o.running, "running", "r", false, "only those whose machine runs")
	cmd.Flags().BoolVarP(&all, "all", "a", false, "all of them, as without it")
	return cmd
}

func runLs(ctx context.Context, a *app, o lsOptions) error {
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	snap, err := c.Snapshot(ctx)
	if err != nil {
		return err
	}
	list := []wire.Workspace{}
	for _, w := range snap.Workspaces {
		if !o.running || w.State == vm.Running {
			list = append(list, w)
		}
	}
	return a.printWorkspaces(list, snap.Now, o.disks)
}

func (a *app) printWorkspaces(list []wire.Workspace, now time.Time, disks bool) error {
	switch {
	case a.json():
		return a.printJSON(list)
	case a.quiet:
		for _, w := range list {
			fmt.Fprintln(a.Out, w.ID.Short())
		}
		return nil
	}
	head := []string{"WORKSPACE ID", "NAME", "STATE", "UP", "CPUS", "MEMORY", "CREATED"}
	if disks {
		head = []string{"WORKSPACE ID", "NAME", "STATE", "IMAGE", "DISK", "HOME", "CREATED", "LAST USED"}
	}
	var rows [][]string
	for _, w := range list {
		row := []string{w.ID.Short(), string(w.Name), stateOf(w)}
		if disks {
			row = append(row, orDash(w.Image), size(w.DiskOwn), size(w.HomeOwn), ago(now, w.Created), ago(now, w.LastUsed))
		} else {
			row = append(row, up(w, now), fmt.Sprint(w.CPUs), memory(w), ago(now, w.Created))
		}
		rows = append(rows, row)
	}
	return table(a.Out, head, rows)
}

// stateOf is the state in a word or two. A mark is shown before the state: it is what matters.
func stateOf(w wire.Workspace) string {
	switch {
	case w.Invalid != "":
		return "invalid"
	case w.Compromise != nil && w.State == vm.Running:
		return "COMPROMISED, running"
	case w.Compromise != nil:
		return "COMPROMISED"
	case w.State == vm.Broken && w.Failure != nil:
		return fmt.Sprintf("broken (%s)", w.Failure.Step)
	case w.State == vm.Starting && len(w.Steps) > 0:
		return fmt.Sprintf("starting (%s)", w.Steps[len(w.Steps)-1].Name)
	}
	return string(w.State)
}

func up(w wire.Workspace, now time.Time) string {
	if w.Started.IsZero() || w.State == vm.Off || w.State == vm.Broken {
		return "-"
	}
	return age(max(0, now.Sub(w.Started)))
}

func memory(w wire.Workspace) string {
	total := size(int64(w.MemoryMiB) << 20)
	if w.Stats == nil {
		return total
	}
	return size(w.Stats.MemUsed) + " of " + total
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// runFront is what the program's other name does without arguments: the TUI on a terminal, else the list.
func runFront(ctx context.Context, a *app) error {
	if a.Front != nil && isTerminal(a.In) && isTerminal(a.Out) && !a.json() && !a.quiet {
		return a.Front(ctx, a.connectQuietly, a.In, a.Out, a.Getenv)
	}
	if err := runLs(ctx, a, lsOptions{}); err != nil {
		return err
	}
	if !a.json() && !a.quiet {
		fmt.Fprintf(a.Err, "\n%s --help lists what can be done, %s vm run NAME starts one.\n", a.Name, a.Name)
	}
	return nil
}
