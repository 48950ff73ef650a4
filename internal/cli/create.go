package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
)

func newWorkspaces(a *app) *cobra.Command {
	return group("workspaces", "Create, list and describe workspaces", []string{"workspace", "ws"},
		newCreate(a, runCreate), newLs(a, "List workspaces with their disks", true), newDescribe(a),
		newReset(a, runRemove), newEraseHome(a, runRemove), newRm(a, runRemove))
}

func newCreate(a *app, run func(context.Context, *app, wire.Create) error) *cobra.Command {
	var c wire.Create
	var memory, home string
	cmd := &cobra.Command{
		Use: "create [NAME]", Short: "Create a workspace",
		Long: `Create a workspace: a name, a directory and settings. Its disks are made when it is started first.

Without a name it gets one. Prints its ID.`,
		Example: `  NAME workspaces create api
  NAME workspaces create --name "my api" --memory 2 --cpus 4
  NAME workspaces create --memory 512M --home 20 --notes "try the new parser"`,
		Args: cobra.ArbitraryArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := takeName(cmd, args, &c); err != nil {
				return err
			}
			if err := takeSizes(cmd, memory, home, &c); err != nil {
				return err
			}
			return run(cmd.Context(), a, c)
		},
	}
	f := cmd.Flags()
	f.StringVar(&c.Name, "name", "", "its name: any script, spaces and emoji are fine")
	f.StringVarP(&memory, "memory", "m", "", "memory in GB, 0.5 and 512M too (default 4, or a quarter of the host's)")
	f.IntVar(&c.CPUs, "cpus", 0, fmt.Sprintf("number of CPUs (default %d)", vm.DefaultCPUs))
	f.StringVar(&home, "home", "", "size of /home/ubuntu in GB; space is used when it is filled (default 64)")
	f.StringVar(&c.Image, "image", "", "base image (default the newest when it is started first)")
	f.StringVar(&c.Notes, "notes", "", "a note for you")
	_ = cmd.RegisterFlagCompletionFunc("image", a.completeImage)
	return cmd
}

func takeName(cmd *cobra.Command, args []string, c *wire.Create) error {
	named := cmd.Flags().Changed("name")
	switch {
	case len(args) > 1:
		return usage(cmd, "one argument too many: %q", args[1])
	case len(args) == 1 && named:
		return usage(cmd, "the name was given twice: %q and %q", args[0], c.Name)
	case len(args) == 1:
		c.Name, named = args[0], true
	}
	if !named {
		return nil
	}
	if _, err := vm.ParseName(c.Name); err != nil {
		return problem.Wrap(problem.Usage, err, "", "")
	}
	return nil
}

func takeSizes(cmd *cobra.Command, memory, home string, c *wire.Create) error {
	if memory != "" {
		mib, err := parseSize(memory)
		if err != nil || mib > vm.MaxMemoryMiB {
			return usage(cmd, "not a memory size: %q", memory)
		}
		c.MemoryMiB = int(mib)
	}
	if home != "" {
		mib, err := parseSize(home)
		if err != nil {
			return usage(cmd, "not a size for the home: %q", home)
		}
		c.HomeMiB = mib
	}
	if cmd.Flags().Changed("cpus") && (c.CPUs < 1 || c.CPUs > vm.MaxCPUs) {
		return usage(cmd, "%d CPUs: it takes 1 to %d", c.CPUs, vm.MaxCPUs)
	}
	return nil
}

func runCreate(ctx context.Context, a *app, o wire.Create) error {
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	w, err := c.Create(ctx, o)
	if err != nil {
		return err
	}
	if a.json() {
		return a.printJSON(w)
	}
	if !a.quiet && isTerminal(a.Err) {
		fmt.Fprintf(a.Err, "created %s: %d CPUs, %s of memory. Start it: %s vm run %s\n",
			line(string(w.Name)), w.CPUs, memory(w), a.Name, shellWord(string(w.Name)))
	}
	_, err = fmt.Fprintln(a.Out, w.ID.Short())
	return err
}
