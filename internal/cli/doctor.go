package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"bromure.io/tui/internal/control"
	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
)

func newDoctor(a *app) *cobra.Command {
	fresh := false
	cmd := &cobra.Command{
		Use: "doctor", Short: "Say what this host can do, and what would help",
		Long:    "Say how machines run on this host and why, what is installed, and what would help.\nThe first time it proves the accelerator by booting a kernel under it; the answer is kept.",
		Example: "  NAME doctor\n  NAME doctor --fresh",
		Args:    exactly(0, ""),
		RunE:    func(cmd *cobra.Command, _ []string) error { return runDoctor(cmd.Context(), a, fresh) },
	}
	cmd.Flags().BoolVar(&fresh, "fresh", false, "look again instead of repeating what was found before")
	return cmd
}

// diagnosis is what doctor found.
type diagnosis struct {
	Backend      string           `json:"backend"`
	Capabilities *vm.Capabilities `json:"capabilities,omitempty"`
	Problem      string           `json:"problem,omitempty"` // why there are no capabilities
	Hint         string           `json:"hint,omitempty"`
	Images       []string         `json:"images"` // newest first
	FreeBytes    int64            `json:"free_bytes"`
	Socket       string           `json:"socket"`
	Daemon       wire.Health      `json:"daemon"`
}

func runDoctor(ctx context.Context, a *app, fresh bool) error {
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	d, failed, err := a.diagnose(ctx, c, fresh)
	if err != nil {
		return err
	}
	if a.json() {
		if err := a.printJSON(d); err != nil {
			return err
		}
	} else if err := fields(a.Out, d.lines()); err != nil {
		return err
	}
	return failed
}

// diagnose asks everything even when the backend has a problem; that problem is failed.
func (a *app) diagnose(ctx context.Context, c *control.Client, fresh bool) (d diagnosis, failed, err error) {
	snap, err := c.Snapshot(ctx)
	if err != nil {
		return d, nil, err
	}
	p := a.progress("doctor")
	p.report(wire.Progress{Step: "look at the hypervisor and the accelerator"})
	caps, failed := c.Doctor(ctx, fresh)
	p.end()
	if ctx.Err() != nil {
		return d, nil, failed
	}
	d = diagnosis{Backend: snap.Backend, Images: []string{}, FreeBytes: snap.FreeBytes, Socket: c.Socket(), Daemon: snap.Health}
	if failed == nil {
		d.Capabilities = &caps
	} else {
		d.Problem, d.Hint = failed.Error(), problem.HintOf(failed)
	}
	list, err := c.Images(ctx)
	for _, m := range list {
		d.Images = append(d.Images, string(m.Ref))
	}
	return d, failed, err
}

func (d diagnosis) lines() [][2]string {
	var out [][2]string
	add := func(k, format string, args ...any) { out = append(out, [2]string{k, fmt.Sprintf(format, args...)}) }
	if c := d.Capabilities; c != nil {
		add("Machines", "%s: %s", c.Accelerator, c.Why)
		add("To get better", "%s", c.Hint)
		hypervisor := c.Version
		if !strings.HasPrefix(strings.ToLower(hypervisor), d.Backend) {
			hypervisor = strings.TrimSpace(d.Backend + " " + hypervisor)
		}
		add("Hypervisor", "%s", hypervisor)
		var formats []string
		for _, f := range c.Formats {
			formats = append(formats, string(f))
		}
		add("Disks", "%s", strings.Join(formats, ", "))
		if c.Survives {
			add("Daemon's end", "machines go on running, the next daemon takes them over")
		} else {
			add("Daemon's end", "machines end with the daemon")
		}
	} else {
		add("Machines", "none can run here: %s", d.Problem)
	}
	if len(d.Images) == 0 {
		add("Images", "none; `bromure-cli image build` makes one")
	} else {
		add("Images", "%s", strings.Join(d.Images, ", "))
	}
	add("Data", "%s, %s free", d.Daemon.Root, size(d.FreeBytes))
	add("Daemon", "version %s, pid %d, %s", d.Daemon.Version, d.Daemon.PID, d.Socket)
	return out
}
