package cli

import (
	"context"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"bromure.io/tui/internal/control/wire"
)

func newCompletion(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "completion bash|zsh|fish", Short: "Print the completion script of a shell",
		Example: `  source <(NAME completion bash)
  NAME completion zsh > "${fpath[1]}/_NAME"
  NAME completion fish | source`,
		ValidArgs: []string{"bash", "zsh", "fish"}, Args: exactly(1, "the shell (bash, zsh or fish)"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch root := cmd.Root(); args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.Out, true)
			case "zsh":
				return root.GenZshCompletion(a.Out)
			case "fish":
				return root.GenFishCompletion(a.Out, true)
			}
			return usage(cmd, "no completion for the shell %q", args[0])
		},
	}
}

type versionReport struct {
	Version string       `json:"version"`
	Go      string       `json:"go"`
	System  string       `json:"system"`
	API     int          `json:"api"`
	Daemon  *wire.Health `json:"daemon,omitempty"`
}

func newVersion(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the versions of this program and of the daemon", Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return runVersion(cmd.Context(), a) },
	}
}

func runVersion(ctx context.Context, a *app) error {
	v := versionReport{Version: a.Version, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, API: wire.API}
	h, err := a.health(ctx)
	if err == nil {
		v.Daemon = &h
	}
	if a.json() {
		return a.printJSON(v)
	}
	fmt.Fprintf(a.Out, "%s %s (%s, %s)\n", a.Name, v.Version, v.Go, v.System)
	if v.Daemon != nil {
		fmt.Fprintf(a.Out, "daemon %s (pid %d)\n", line(h.Version), h.PID)
	}
	return nil
}

// health asks a daemon that runs, whatever its version.
func (a *app) health(ctx context.Context) (wire.Health, error) {
	quiet := a.quiet
	a.quiet = true // the caller shows the versions itself
	c, err := a.find(ctx)
	a.quiet = quiet
	if err != nil {
		return wire.Health{}, err
	}
	defer c.Close()
	return c.Health(ctx)
}
