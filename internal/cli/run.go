package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"bromure.io/tui/internal/control"
	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm/guest"
)

// streamFlags are what `vm run` and `vm exec` have in common.
type streamFlags struct {
	interactive bool // -i
	tty         bool // -t
	noTTY       bool // -T
	root        bool
	dir         string
	env         []string
}

func (s *streamFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVarP(&s.interactive, "interactive", "i", false, "pass standard input on even where it is a terminal and the command has none")
	f.BoolVarP(&s.tty, "tty", "t", false, "give the command a terminal (default if input and output are one)")
	f.BoolVarP(&s.noTTY, "no-tty", "T", false, "give the command no terminal")
	f.BoolVar(&s.root, "root", false, "run the command as root")
	f.StringVarP(&s.dir, "workdir", "w", "", "directory to run it in (default the user's home)")
	f.StringArrayVarP(&s.env, "env", "e", nil, "set an environment variable, KEY=VALUE; KEY alone takes its value from here")
}

type runOptions struct {
	streamFlags
	ref    string
	argv   []string
	detach bool

	throwaway bool        // --rm
	create    wire.Create // of the throw-away workspace
}

func newRun(a *app, run func(context.Context, *app, runOptions) error) *cobra.Command {
	var o runOptions
	var memory string
	cmd := &cobra.Command{
		Use: "run {WORKSPACE | --rm} [-d] [-- COMMAND...]", Short: "Start a workspace's machine, and use it",
		Long: `Start a workspace's machine, and use it: run a command in it, or attach to its console. The
machine goes on running afterwards; "vm stop" stops it. Into one that runs already, "vm exec" and "vm attach" lead.

With --rm it makes a throw-away workspace instead, which is deleted when its machine stops, whatever stops it: its command or
its console has ended, this program is gone, or with -d somebody stopped it. A reboot of the guest is not a stop.

With -d it leaves the machine to itself and prints the ID; a command then runs in the console "run", where
"vm attach --console run" finds it and what it printed. Without a command and without a terminal it is the same.`,
		Example: `  NAME vm run api                     start it and attach to its console
  NAME vm run api -- make test        start it and run a command
  NAME vm run -d api                  only start it
  NAME vm run -d api -- make watch    start it with a command, and come back
  tar c . | NAME vm run api -- tar x  standard input is passed on
  NAME vm run --rm -- sh -c 'exit 7'  in a workspace that is gone afterwards
  NAME vm run --rm --memory 2         a shell in one`,
		ValidArgsFunction: a.completeWorkspace,
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if o.throwaway {
				o.argv, err = args, takeSizes(cmd, memory, "", &o.create)
			} else {
				o.ref, o.argv, err = a.splitCommand(cmd, args)
			}
			if err != nil {
				return shownHelp(err)
			}
			if err := o.checkThrowaway(cmd); err != nil {
				return err
			}
			return run(cmd.Context(), a, o)
		},
	}
	cmd.Flags().SetInterspersed(false)
	cmd.Flags().BoolVarP(&o.detach, "detach", "d", false, "start it and leave it to itself")
	cmd.Flags().BoolVar(&o.throwaway, "rm", false, "in a new workspace that is deleted when its machine stops")
	cmd.Flags().StringVar(&o.create.Name, "name", "", "with --rm: its name (default one is made up)")
	cmd.Flags().StringVar(&memory, "memory", "", "with --rm: memory in GB, or as in 512M")
	cmd.Flags().IntVar(&o.create.CPUs, "cpus", 0, "with --rm: number of CPUs")
	cmd.Flags().StringVar(&o.create.Image, "image", "", "with --rm: base image (default the newest)")
	o.add(cmd)
	return cmd
}

// checkThrowaway refuses flags that only a throw-away workspace takes.
func (o *runOptions) checkThrowaway(cmd *cobra.Command) error {
	if o.throwaway {
		return nil
	}
	for _, name := range []string{"name", "memory", "cpus", "image"} {
		if cmd.Flags().Changed(name) {
			return usage(cmd, "--%s goes with --rm; a workspace that is kept has its own settings", name)
		}
	}
	return nil
}

// splitCommand takes "WORKSPACE [flags] [--] COMMAND..." apart. Flags end where the command begins, so that
// the command's own flags need no "--".
func (a *app) splitCommand(cmd *cobra.Command, args []string) (ref string, argv []string, err error) {
	if len(args) == 0 || cmd.ArgsLenAtDash() == 0 {
		return "", nil, usage(cmd, "the workspace is missing")
	}
	ref, rest := args[0], args[1:]
	if err := wire.CheckRef(ref); err != nil {
		return "", nil, err
	}
	if len(rest) == 0 || !strings.HasPrefix(rest[0], "-") {
		return ref, rest, nil
	}
	if err := cmd.Flags().Parse(rest); err != nil {
		return "", nil, usage(cmd, "%s", err)
	}
	if help, _ := cmd.Flags().GetBool("help"); help {
		return "", nil, errHelp{cmd}
	}
	if err := a.checkOutput(); err != nil { // -o may have come late
		return "", nil, err
	}
	return ref, cmd.Flags().Args(), nil
}

// errHelp asks for help instead of a run.
type errHelp struct{ cmd *cobra.Command }

func (errHelp) Error() string { return "help" }

// shownHelp shows the help that was asked for after the workspace.
func shownHelp(err error) error {
	if h, ok := err.(errHelp); ok {
		return h.cmd.Help()
	}
	return err
}

func runRun(ctx context.Context, a *app, o runOptions) error {
	terminals := isTerminal(a.In) && isTerminal(a.Out)
	var exec *guest.Exec
	if len(o.argv) > 0 {
		e, err := a.execOf(o.streamFlags, o.argv)
		if err != nil {
			return err // before anything is started
		}
		exec = &e
	}
	c, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	if o.throwaway {
		return a.runThrowaway(ctx, c, o, exec, terminals)
	}
	w, err := a.start(ctx, c, o.ref)
	if err != nil {
		return err
	}
	switch {
	case exec != nil && o.detach:
		if err := a.execDetached(ctx, c, o.ref, o.argv, o.streamFlags); err != nil {
			return err
		}
	case exec != nil:
		return a.exec(ctx, c, o.ref, *exec, o.interactive)
	case !o.detach && terminals && !o.noTTY:
		return a.attach(ctx, c, attachOptions{ref: o.ref, console: guest.DefaultConsole, keys: defaultDetachKeys})
	}
	if a.json() {
		return a.printJSON(w)
	}
	_, err = fmt.Fprintln(a.Out, w.ID.Short())
	return err
}

// execOf is the program that the flags describe.
func (a *app) execOf(f streamFlags, argv []string) (guest.Exec, error) {
	e := guest.Exec{Argv: argv, Dir: f.dir, Root: f.root}
	if argv[0] == "" {
		return e, problem.New(problem.Usage, "the command is empty", "")
	}
	for _, kv := range f.env {
		k, v, ok := strings.Cut(kv, "=")
		if k == "" {
			return e, problem.New(problem.Usage, fmt.Sprintf("not KEY=VALUE: %q", kv), "")
		}
		if !ok {
			v = a.Getenv(k)
		}
		if e.Env == nil {
			e.Env = map[string]string{}
		}
		e.Env[k] = v
	}
	in := isTerminal(a.In)
	switch {
	case f.tty && f.noTTY:
		return e, problem.New(problem.Usage, "-t and -T exclude each other", "")
	case f.tty && !in:
		return e, problem.New(problem.Usage, "-t needs a terminal as standard input", "")
	}
	e.TTY = f.tty || !f.noTTY && !f.interactive && in && isTerminal(a.Out)
	if e.TTY {
		e.Term, e.Size = a.Getenv("TERM"), a.windowSize()
	}
	return e, nil
}

// runConsole is the console in which `vm run -d` starts its command.
const runConsole = "run"

// execDetached starts a program in a console that the guest holds, and leaves it there.
func (a *app) execDetached(ctx context.Context, c *control.Client, ref string, argv []string, f streamFlags) error {
	if f.root || f.dir != "" || len(f.env) > 0 {
		// A console is a login session of the user's: what such flags would change, the command can change itself.
		return problem.New(problem.Usage, "--root, --workdir and --env do not go with -d and a command", "Use sudo, cd or env in the command.")
	}
	stream, err := c.Attach(ctx, ref, wire.Attach{Console: &guest.Console{Name: runConsole, Argv: argv, Size: guest.Size{Cols: 80, Rows: 24}, Term: "xterm-256color"}})
	if err != nil {
		return err
	}
	return stream.Close()
}
