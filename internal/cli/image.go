package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"bromure.io/tui/images"
	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/internal/verb"
)

func newImage(a *app) *cobra.Command {
	return group("image", "Build, list and verify base images", []string{"images"}, newBuild(a, runBuild), newImageLs(a), newVerify(a),
		newImageRm(a, runRemove), newPrune(a, runRemove))
}

func newBuild(a *app, run func(context.Context, *app, wire.Build) error) *cobra.Command {
	var b wire.Build
	cmd := &cobra.Command{
		Use: "build", Short: "Build a base image from a distribution's packages",
		Long:    "Build a base image from the packages of the host's own distribution, or of another one.\nPrints its reference. A build that fails or is cut short leaves no image.",
		Example: "  NAME image build\n  NAME image build --distro ubuntu --suite noble",
		Args:    exactly(0, ""), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), a, b) },
	}
	cmd.Flags().StringVar(&b.Distro, "distro", "", "debian or ubuntu (default the host's)")
	cmd.Flags().StringVar(&b.Suite, "suite", "", "release of the distribution, as in bookworm or noble (default the host's)")
	_ = cmd.RegisterFlagCompletionFunc("distro", cobra.FixedCompletions([]string{"debian", "ubuntu"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func runBuild(ctx context.Context, a *app, b wire.Build) error {
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	begun := time.Now()
	last, err := a.do(ctx, c, wire.Do{Verb: string(verb.ImageBuild), Build: &b})
	if err != nil {
		return err
	}
	if a.json() {
		return a.printJSON(struct {
			Ref string `json:"ref"`
		}{last.Image})
	}
	if !a.quiet && isTerminal(a.Err) {
		fmt.Fprintf(a.Err, "built in %s\n", took(time.Since(begun)))
	}
	_, err = fmt.Fprintln(a.Out, line(last.Image))
	return err
}

func newImageLs(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "List base images, newest first", Aliases: []string{"list", "ps"}, Args: exactly(0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error { return runImageLs(cmd.Context(), a) },
	}
}

func runImageLs(ctx context.Context, a *app) error {
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	list, err := c.Images(ctx)
	if err != nil {
		return err
	}
	switch {
	case a.json():
		return a.printJSON(list)
	case a.quiet:
		for _, m := range list {
			fmt.Fprintln(a.Out, line(string(m.Ref)))
		}
		return nil
	}
	var rows [][]string
	for _, m := range list {
		base, _ := m.Find("base.img")
		rows = append(rows, []string{string(m.Ref), m.Distro + " " + m.Release, m.Kernel, m.Source,
			fmt.Sprint(len(m.Packages)), size(base.Stored) + " of " + size(base.Size), ago(time.Now(), m.Created)})
	}
	return table(a.Out, []string{"IMAGE", "SYSTEM", "KERNEL", "SOURCE", "PACKAGES", "SIZE", "CREATED"}, rows)
}

func newVerify(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "verify [IMAGE]", Short: "Compare an image's files with its manifest",
		Long:              "Compare the files of an image, by default of the newest one, with what its manifest says.\nExit code 7: they differ.",
		ValidArgsFunction: a.completeImage,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage(cmd, "one argument too many: %q", args[1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ref := ""
			if len(args) == 1 {
				r, err := images.ParseRef(args[0])
				if err != nil {
					return problem.Wrap(problem.Usage, err, "", a.Name+" image ls")
				}
				ref = string(r)
			}
			return runVerify(cmd.Context(), a, ref)
		},
	}
}

func runVerify(ctx context.Context, a *app, ref string) error {
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	p := a.progress("verify")
	got, err := c.VerifyImage(ctx, ref, p.report)
	p.end()
	if err != nil {
		return err
	}
	if a.json() {
		return a.printJSON(struct {
			Ref      images.Ref `json:"ref"`
			Verified bool       `json:"verified"`
		}{got, true})
	}
	if a.quiet {
		_, err = fmt.Fprintln(a.Out, line(string(got)))
		return err
	}
	_, err = fmt.Fprintf(a.Out, "%s is what its manifest says\n", line(string(got)))
	return err
}
