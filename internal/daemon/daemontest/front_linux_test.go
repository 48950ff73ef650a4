package daemontest

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"bromure.io/tui/internal/cli"
)

// envFront tells a copy of the test binary to be bromure-cli.
const envFront = "BROMURE_DAEMONTEST_FRONT"

func TestMain(m *testing.M) {
	if os.Getenv(envFront) != "" {
		os.Exit(cli.Main(cli.Deps{Name: "bromure-cli", Version: version, In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv}, os.Args[1:]))
	}
	Main(m)
}

// front is a command of bromure-cli on a place with a running daemon.
func front(t *testing.T, p *Place, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, args...)
	cmd.Env = append(os.Environ(), envFront+"=1", "BROMURE_HOME="+string(p.Root), "TERM=xterm")
	t.Cleanup(func() {
		if cmd.Process != nil && cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return cmd
}

// Field case F91: a signal to the front of `vm run --rm` reaches the command, with a terminal and without; the front's code says
// which it was, and nothing is left.
func TestSignalsEndThrowaways(t *testing.T) {
	p := TempPlace(t)
	if _, err := p.AddImage("1", Epoch()); err != nil {
		t.Fatal(err)
	}
	d := p.Start(t, nil)
	script := `trap "echo got it; exit 0" TERM INT HUP; echo re""ady; while :; do sleep 0.02; done`
	for _, c := range []struct {
		name string
		sig  syscall.Signal
		code int
	}{{"TERM", syscall.SIGTERM, 143}, {"INT", syscall.SIGINT, 130}, {"HUP", syscall.SIGHUP, 129}} {
		for _, terminal := range []bool{false, true} {
			t.Run(c.name+map[bool]string{true: " with a terminal"}[terminal], func(t *testing.T) {
				args := []string{"vm", "run", "--rm", "--memory", "0.25", "--", "sh", "-c", script}
				if terminal {
					args = append([]string{"vm", "run", "--rm", "-t"}, args[3:]...)
				}
				cmd := front(t, p, args...)
				out := begin(t, cmd, terminal)
				sees(t, out, "ready")
				if err := cmd.Process.Signal(c.sig); err != nil {
					t.Fatal(err)
				}
				sees(t, out, "got it")
				_, _ = io.Copy(io.Discard, out)
				_ = cmd.Wait()
				if code := cmd.ProcessState.ExitCode(); code != c.code {
					t.Errorf("exit %d, want %d", code, c.code)
				}
				nothingLeft(t, p, d)
			})
		}
	}

	// -t without a terminal: one clear line, and nothing is started.
	for _, in := range []io.Reader{nil, strings.NewReader("x")} {
		cmd := front(t, p, "vm", "run", "--rm", "-t", "--", "true")
		cmd.Stdin = in
		said, err := cmd.CombinedOutput()
		if err == nil || strings.Count(string(said), "\n") != 1 || !strings.Contains(string(said), "-t needs a terminal") {
			t.Errorf("-t without a terminal: %v, %q", err, said)
		}
		nothingLeft(t, p, d)
	}
	if n := d.Fake.Started(); n != 6 {
		t.Errorf("%d machines were started", n)
	}
}

// Killed, a front leaves nothing either, once the daemon has noticed.
func TestKilledFrontLeavesNothing(t *testing.T) {
	p := TempPlace(t)
	if _, err := p.AddImage("1", Epoch()); err != nil {
		t.Fatal(err)
	}
	d := p.Start(t, nil)
	cmd := front(t, p, "vm", "run", "--rm", "--memory", "0.25", "--", "sh", "-c", "echo re\"\"ady; exec sleep 1000")
	out := begin(t, cmd, false)
	sees(t, out, "ready")
	snap, err := d.Snapshot(t.Context())
	if err != nil || len(snap.Workspaces) != 1 {
		t.Fatalf("workspaces %v, %v", snap.Workspaces, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	deadline := time.After(patience)
	for snap, err := range d.Watch(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if len(snap.Workspaces) == 0 {
			break
		}
		select {
		case <-deadline:
			t.Fatalf("still there: %v", snap.Workspaces)
		default:
		}
	}
	d.Stop()                                                        // which waits for what is under way
	if left, _ := os.ReadDir(p.Root.Workspaces()); len(left) != 1 { // .lock
		t.Errorf("left: %v", left)
	}
	if n := len(d.Fake.Running()); n != 0 {
		t.Errorf("%d machines run", n)
	}
}

// begin starts a front and returns what it prints.
func begin(t *testing.T, cmd *exec.Cmd, terminal bool) io.Reader {
	t.Helper()
	if terminal {
		f, err := pty.Start(cmd)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return out
}

func sees(t *testing.T, r io.Reader, want string) {
	t.Helper()
	var got []byte
	for b := make([]byte, 1); !strings.Contains(string(got), want); got = append(got, b...) {
		if _, err := io.ReadFull(r, b); err != nil {
			t.Fatalf("%q was not printed: %q, %v", want, got, err)
		}
	}
}

// nothingLeft: the front has waited until everything is gone.
func nothingLeft(t *testing.T, p *Place, d *Daemon) {
	t.Helper()
	snap, err := d.Snapshot(t.Context())
	if err != nil || len(snap.Workspaces) != 0 {
		t.Errorf("workspaces %v, %v", snap.Workspaces, err)
	}
	if left, _ := os.ReadDir(p.Root.Workspaces()); len(left) != 1 { // .lock
		t.Errorf("left: %v", left)
	}
	if n := len(d.Fake.Running()); n != 0 {
		t.Errorf("%d machines run", n)
	}
}

// When an uninstall says that it is done, it is.
func TestUninstallIsDoneWhenItSaysSo(t *testing.T) {
	p := TempPlace(t)
	if err := p.furnish(); err != nil {
		t.Fatal(err)
	}
	pr, err := p.Spawn("")
	if err != nil {
		t.Fatal(err)
	}
	defer pr.Kill()
	if out, err := front(t, p, "uninstall", "--yes").CombinedOutput(); err != nil || !strings.Contains(string(out), "done") {
		t.Fatalf("%v: %s", err, out)
	}
	if left, err := os.ReadDir(string(p.Root)); err == nil && len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
