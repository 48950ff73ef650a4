package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"bromure.io/tui/internal/problem"
)

func newRoot(a *app) *cobra.Command {
	root := &cobra.Command{
		Use:   a.Name,
		Short: "Workspaces for coding agents, each a virtual machine of its own",
		Long: `Workspaces for coding agents, each a Linux virtual machine of its own on this computer.

A workspace is addressed by its name, its ID, or the beginning of its ID.`,
		Example: `  NAME workspaces create --name api
  NAME vm run api -- uname -a     start it and run a command in it
  NAME vm exec api -- make test   run another one
  NAME vm attach api              its console; ctrl-p ctrl-q leaves it running
  NAME vm stop api`,
		Version:       a.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			if cmd.Root().Name() == "bromure-tui" {
				return runFront(cmd.Context(), a)
			}
			return cmd.Help()
		},
		PersistentPreRunE: func(*cobra.Command, []string) error { return a.checkOutput() },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetVersionTemplate("{{.Name}} {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usage(cmd, "%s", err) })
	root.PersistentFlags().StringVarP(&a.output, "output", "o", "text", "text or json")
	root.PersistentFlags().BoolVarP(&a.quiet, "quiet", "q", false, "print IDs only, and no progress")
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
	root.AddCommand(newVM(a), newWorkspaces(a), newImage(a), newUninstall(a, runRemove), newDoctor(a), newDaemon(a), newCompletion(a), newVersion(a))
	nameExamples(root, a.Name)
	return root
}

func (a *app) checkOutput() error {
	if a.output == "text" || a.output == "json" {
		return nil
	}
	bad := a.output
	a.output = "text"
	return problem.New(problem.Usage, fmt.Sprintf("unknown output format %q", bad), "It is text or json.")
}

// group is a command that only has others below it.
func group(use, short string, aliases []string, subs ...*cobra.Command) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Aliases: aliases, Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(subs...)
	return cmd
}

// usage is an error about the command line itself.
func usage(cmd *cobra.Command, format string, args ...any) error {
	msg := format
	if len(args) > 0 {
		msg = fmt.Sprintf(format, args...)
	}
	return problem.New(problem.Usage, msg, cmd.CommandPath()+" --help")
}

func unknownCommand(cmd *cobra.Command, word string) error {
	err := fmt.Sprintf("unknown command %q for %s", word, cmd.CommandPath())
	cmd.SuggestionsMinimumDistance = 2
	if s := cmd.SuggestionsFor(word); len(s) > 0 {
		return problem.New(problem.Usage, err, cmd.CommandPath()+" "+s[0])
	}
	return usage(cmd, "%s", err)
}

// exactly is cobra.ExactArgs with a sentence of ours.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < n:
			return usage(cmd, "%s is missing", what)
		case len(args) > n:
			return usage(cmd, "one argument too many: %q", args[n])
		}
		return nil
	}
}

func atLeastOne(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usage(cmd, "%s is missing", what)
		}
		return nil
	}
}

// nameExamples puts the program's name into the examples.
func nameExamples(cmd *cobra.Command, name string) {
	cmd.Example = strings.ReplaceAll(cmd.Example, "NAME", name)
	for _, sub := range cmd.Commands() {
		nameExamples(sub, name)
	}
}
