package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// shellWord quotes s for a command that the user may copy.
func shellWord(s string) string {
	s = line(s)
	plain := s != ""
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.,:@%+", r) {
			plain = false
		}
	}
	if plain {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// completionTime bounds how long a tab may take. It starts no daemon.
const completionTime = 2 * time.Second

func (a *app) completeWorkspace(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return a.completeWorkspaces(cmd, args, "")
}

func (a *app) completeWorkspaces(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	a.quiet = true // nothing may be printed beside the answer
	c, err := a.find(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer c.Close()
	snap, err := c.Snapshot(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, w := range snap.Workspaces {
		if w.Invalid == "" && line(string(w.Name)) == string(w.Name) {
			out = append(out, string(w.Name)+"\t"+line(stateOf(w)))
		}
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

func (a *app) completeImage(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	a.quiet = true
	c, err := a.find(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer c.Close()
	list, err := c.Images(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, m := range list {
		out = append(out, string(m.Ref))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}
