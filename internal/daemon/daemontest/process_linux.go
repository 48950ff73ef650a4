package daemontest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"bromure.io/tui/internal/control"
	"bromure.io/tui/internal/daemon"
	"bromure.io/tui/internal/failpoint"
	"bromure.io/tui/vm/vmtest"
)

// envPlace tells a copy of the test binary to be the daemon of a place.
const envPlace = "BROMURE_DAEMONTEST"

// version is what daemon and front say they are.
const version = "test"

// patience bounds each wait for a daemon. It only says when one hangs.
const patience = 2 * time.Minute

// Main is what a TestMain has to call that wants [Place.Spawn]: the test binary is the daemon as well.
func Main(m *testing.M) {
	if dir := os.Getenv(envPlace); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child is the daemon of a place, with fake machines that end together with it. A line on its standard input arms
// the fail points: "N" or "log:PATH" as [failpoint.FromEnv] takes it, or "at:NAME" for the next point of that name. The end of its input ends it.
func child(dir string) error {
	p, err := OpenPlace(dir)
	if err != nil {
		return err
	}
	if err := failpoint.FromEnv(os.Getenv); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		defer cancel()
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			if name, ok := strings.CutPrefix(in.Text(), "at:"); ok {
				failpoint.Set(func(at string) {
					if at == name {
						_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
						select {}
					}
				})
			} else if err := failpoint.FromEnv(func(string) string { return in.Text() }); err != nil {
				fmt.Fprintln(os.Stderr, err)
				return
			}
			fmt.Println("armed")
		}
	}()
	opts, err := p.options()
	if err != nil {
		return err
	}
	return daemon.Run(ctx, opts)
}

func (p *Place) options() (daemon.Options, error) {
	etc, err := WriteEtc(p.Dir)
	return daemon.Options{
		Root: p.Root, Runtime: p.Runtime, Version: version, Idle: time.Hour,
		Backend: &vmtest.Fake{Guest: Guest(etc)},
	}, err
}

// Process is a daemon in a process of its own.
type Process struct {
	*control.Client

	booted string // the ID of the workspace that [Operation].Boot has made
	leave  func() // ends the lease on it

	output string // a file
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	ended  chan struct{}
}

// Spawn starts a daemon and returns when it answers. failpoints arms it from its very beginning.
func (p *Place) Spawn(failpoints string) (*Process, error) {
	pr, err := p.spawn(failpoints)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if pr.Client, err = control.Connect(ctx, control.Options{Root: p.Root, Runtime: p.Runtime, Version: version}); err == nil {
			return pr, nil
		}
		select {
		case <-tick.C:
		case <-pr.ended:
			return nil, errors.New(pr.died())
		case <-ctx.Done():
			pr.Kill()
			return nil, err
		}
	}
}

func (p *Place) spawn(failpoints string) (*Process, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	log, err := os.OpenFile(filepath.Join(p.Dir, "daemon.out"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	pr := &Process{output: log.Name(), cmd: exec.Command(exe), ended: make(chan struct{})}
	pr.cmd.Env = append(os.Environ(), envPlace+"="+p.Dir, failpoint.Env+"="+failpoints, "TZ=UTC")
	pr.cmd.Stderr = log
	if pr.in, err = pr.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	pr.out, pr.cmd.Stdout = bufio.NewReader(out), w
	err = pr.cmd.Start()
	w.Close()
	if err != nil {
		out.Close()
		return nil, fmt.Errorf("start a daemon: %w", err)
	}
	go func() {
		_ = pr.cmd.Wait()
		out.Close()
		close(pr.ended)
	}()
	return pr, nil
}

// Arm arms the fail points of a daemon that runs; see [child].
func (pr *Process) Arm(what string) error {
	if _, err := io.WriteString(pr.in, what+"\n"); err != nil {
		return err
	}
	line, err := pr.out.ReadString('\n')
	if err == nil && line != "armed\n" {
		err = fmt.Errorf("it said %q", line)
	}
	return err
}

// Kill ends the daemon as kill -9 does, and everything that runs in it.
func (pr *Process) Kill() {
	_ = pr.cmd.Process.Kill()
	<-pr.ended
	if pr.leave != nil {
		pr.leave()
	}
	if pr.Client != nil {
		pr.Client.Close()
	}
}

// died says how a daemon ended that was not told to, with what it printed; it is empty for one that runs.
func (pr *Process) died() string {
	select {
	case <-pr.ended:
	case <-time.After(20 * time.Millisecond): // a connection that broke is seen before the end of the process
		return ""
	}
	out, _ := os.ReadFile(pr.output)
	return fmt.Sprintf(" (the daemon ended: %s: %s)", pr.cmd.ProcessState, out)
}

// Killed waits for the end of the daemon and says whether it was kill -9.
func (pr *Process) Killed(ctx context.Context) error {
	select {
	case <-pr.ended:
	case <-ctx.Done():
		return errors.New("the daemon did not come to the point at which it was to end")
	}
	if st, ok := pr.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || st.Signal() != syscall.SIGKILL {
		return fmt.Errorf("the daemon ended otherwise: %s", pr.cmd.ProcessState)
	}
	return nil
}
