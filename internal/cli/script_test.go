package cli_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"bromure.io/tui/internal/cli"
	"bromure.io/tui/internal/control"
	"bromure.io/tui/internal/control/controltest"
	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/layout"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"bromure-cli": func() { os.Exit(program("bromure-cli")) },
		"bromure-tui": func() { os.Exit(program("bromure-tui")) },
		"panics":      cli.Panics,
	})
}

// program is the real command tree and the real control socket, with a daemon in memory.
func program(name string) int {
	version := os.Getenv("TEST_VERSION")
	if version == "" {
		version = "1.2.3"
	}
	return cli.Main(cli.Deps{
		Name: name, Version: version, In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv,
		RunDaemon: func(ctx context.Context, o cli.DaemonOptions) error {
			switch os.Getenv("TEST_DAEMON") {
			case "dies":
				fmt.Fprintln(os.Stderr, "cannot read the workspaces: \x1b[2Jdisk on fire")
				os.Exit(1)
			case "hangs": // it never listens
				<-ctx.Done()
				return nil
			}
			return controltest.RunDaemon(ctx, o.Root, o.Runtime, o.Version)
		},
	}, os.Args[1:])
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, "home")
			run := filepath.Join(env.WorkDir, "run")
			env.Setenv("BROMURE_HOME", home)
			env.Setenv("XDG_RUNTIME_DIR", run)
			env.Setenv("LC_ALL", "C.UTF-8")
			env.Defer(func() { stopDaemon(home, run) })
			return os.Mkdir(run, 0o700)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":      scriptExits,
			"nocontrols": scriptNoControls,
			"signalled":  scriptSignalled,
			"follows":    scriptFollows,
		},
	})
}

// scriptExits runs a command and compares its exit code: exits CODE COMMAND ARG...
// Arguments may have Go escapes, as in \x1b. Standard input is empty.
func scriptExits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	for i, a := range args {
		if strings.Contains(a, `\`) {
			args[i], err = strconv.Unquote(`"` + a + `"`)
			ts.Check(err)
		}
	}
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if err != nil {
		exit, ok := err.(*exec.ExitError)
		if !ok {
			ts.Fatalf("run %q: %v", args[1:], err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("%q: exit %d, want %d\nstderr: %s", args[1:], got, want, ts.ReadFile("stderr"))
	}
}

// scriptNoControls fails if the last command printed a control character that a terminal obeys.
func scriptNoControls(ts *testscript.TestScript, _ bool, _ []string) {
	for _, f := range []string{"stdout", "stderr"} {
		for _, r := range ts.ReadFile(f) {
			if r != '\n' && (r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0xfffd) {
				ts.Fatalf("%s has the control character %U", f, r)
			}
		}
	}
}

// command makes a command of the script that runs beside it.
func command(ts *testscript.TestScript, args []string) *exec.Cmd {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = ts.Getenv("WORK")
	cmd.Env = os.Environ()
	for _, k := range []string{"BROMURE_HOME", "XDG_RUNTIME_DIR", "TEST_VERSION", "TEST_DAEMON"} {
		cmd.Env = append(cmd.Env, k+"="+ts.Getenv(k))
	}
	return cmd
}

// endBy sends a signal and compares the exit code.
func endBy(ts *testscript.TestScript, cmd *exec.Cmd, sig, code string) {
	n := map[string]os.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP}[sig]
	ts.Check(cmd.Process.Signal(n))
	_ = cmd.Wait()
	if got := strconv.Itoa(cmd.ProcessState.ExitCode()); got != code {
		ts.Fatalf("after SIG%s: exit %s, want %s", sig, got, code)
	}
}

// scriptSignalled signals a command as soon as a workspace has a state: signalled SIGNAL CODE STATE WORKSPACE COMMAND...
func scriptSignalled(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	root := layout.Root(ts.Getenv("BROMURE_HOME"))
	c, err := control.Connect(ctx, control.Options{Root: root, Runtime: layout.RuntimeFor(root, ts.Getenv, os.Getuid()), Version: "1.2.3"})
	ts.Check(err)
	defer c.Close()
	cmd := command(ts, args[4:])
	ts.Check(cmd.Start())
	for snap, err := range c.Watch(ctx) {
		ts.Check(err)
		if slices.ContainsFunc(snap.Workspaces, func(w wire.Workspace) bool {
			return string(w.Name) == args[3] && string(w.State) == args[2]
		}) {
			break
		}
	}
	endBy(ts, cmd, args[0], args[1])
}

// scriptFollows signals a command as soon as it has printed a line: follows SIGNAL CODE LINE COMMAND...
func scriptFollows(ts *testscript.TestScript, _ bool, args []string) {
	cmd := command(ts, args[3:])
	out, err := cmd.StdoutPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != args[2] {
	}
	ts.Check(lines.Err())
	endBy(ts, cmd, args[0], args[1])
}

func stopDaemon(home, run string) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	root := layout.Root(home)
	env := func(k string) string { return map[string]string{"XDG_RUNTIME_DIR": run}[k] }
	c, err := control.Connect(ctx, control.Options{Root: root, Runtime: layout.RuntimeFor(root, env, os.Getuid())})
	if err != nil {
		return // none was started, or it has ended
	}
	defer c.Close()
	if c.Shutdown(ctx, wire.Shutdown{Machines: true}, nil) == nil {
		_ = control.WaitGone(ctx, root)
	}
}
