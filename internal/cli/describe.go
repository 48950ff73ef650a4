package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/vm"
)

func newDescribe(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "describe WORKSPACE", Short: "Show all about a workspace", Aliases: []string{"inspect"},
		Args: exactly(1, "the workspace"), ValidArgsFunction: a.completeWorkspace,
		Example: "  NAME workspaces describe api\n  NAME workspaces describe api -o json",
		RunE:    func(cmd *cobra.Command, args []string) error { return runDescribe(cmd.Context(), a, args[0]) },
	}
}

func runDescribe(ctx context.Context, a *app, ref string) error {
	if err := wire.CheckRef(ref); err != nil {
		return err
	}
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	w, err := c.Workspace(ctx, ref)
	if err != nil {
		return err
	}
	if a.json() {
		return a.printJSON(w)
	}
	if a.quiet {
		_, err := fmt.Fprintln(a.Out, w.ID.Short())
		return err
	}
	return fields(a.Out, description(w, time.Now()))
}

func description(w wire.Workspace, now time.Time) [][2]string {
	var out [][2]string
	add := func(k, format string, args ...any) { out = append(out, [2]string{k, fmt.Sprintf(format, args...)}) }
	add("Name", "%s", w.Name)
	add("ID", "%s", w.ID)
	add("State", "%s", stateOf(w))
	if w.Invalid != "" {
		add("Problem", "%s", w.Invalid)
	}
	if w.Compromise != nil {
		add("Compromised", "%s, %s", w.Compromise.Reason, ago(now, w.Compromise.At))
	}
	if w.Notice != "" {
		add("Notice", "%s", w.Notice)
	}
	if w.Failure != nil {
		add("Failed at", "%s: %s, %s", w.Failure.Step, w.Failure.Err, ago(now, w.Failure.At))
		add("Hint", "%s", w.Failure.Hint)
	}
	if w.State == vm.Running {
		add("Up", "%s, %s", up(w, now), w.Accelerator)
	}
	add("CPUs", "%d", w.CPUs)
	add("Memory", "%s", memory(w))
	if s := w.Stats; s != nil {
		add("Load", "%.2f %.2f %.2f, %d processes", s.Load1, s.Load5, s.Load15, s.Processes)
		add("In the guest", "/ %s of %s, /home/ubuntu %s of %s", size(s.RootUsed), size(s.RootTotal), size(s.HomeUsed), size(s.HomeTotal))
	}
	add("Image", "%s", orDash(w.Image))
	if w.DiskFormat != "" {
		disk := fmt.Sprintf("%s own, %s", size(w.DiskOwn), w.DiskFormat)
		if w.CloneKind != "" {
			disk += ", " + w.CloneKind
		}
		add("Disk", "%s", disk)
	}
	add("Home", "%s own, up to %s", size(w.HomeOwn), size(w.HomeMiB<<20))
	add("MAC", "%s", w.MAC)
	if w.Consoles > 0 {
		add("Consoles", "%d", w.Consoles)
	}
	for _, p := range w.Ports {
		add("Port", "%s", portLine(p))
	}
	if w.Refused > 0 {
		add("Refused", "%d outbound connections since it started", w.Refused)
	}
	add("Created", "%s (%s)", w.Created.Local().Format(time.DateTime), ago(now, w.Created))
	if !w.LastUsed.IsZero() {
		add("Last used", "%s (%s)", w.LastUsed.Local().Format(time.DateTime), ago(now, w.LastUsed))
	}
	add("Notes", "%s", w.Notes)
	add("Directory", "%s", w.Dir)
	return out
}
