package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
)

// ExitLost is how a daemon exits that found another one holding the lock of its data root. The fronts
// that started the losers wait for the winner.
const ExitLost = 4

// Options say which daemon is wanted.
type Options struct {
	Root    layout.Root
	Runtime layout.Runtime
	Version string // of this program

	// Start starts a daemon when none runs.
	Start bool
	// Command is the daemon to start; nil: this program with the arguments of [DaemonArgs].
	Command []string
	// Deadline is how long a daemon may take until it answers; 0: 30 s.
	Deadline time.Duration
	// Skew is told when a daemon of another version answers; it may be nil.
	Skew func(wire.Health)
}

// DaemonArgs are the arguments with which a front starts its own program as the daemon.
func DaemonArgs() []string { return []string{"daemon", "run", "--quiet"} }

const (
	defaultDeadline = 30 * time.Second
	pollInterval    = 10 * time.Millisecond
	healthTimeout   = 5 * time.Second // one that accepts and does not answer within this hangs
	restartInterval = time.Second
)

// Connect finds the daemon of a data root, or starts one, and returns when it answers.
func Connect(ctx context.Context, o Options) (*Client, error) {
	c, err := dialDaemon(ctx, o)
	if err == nil || !o.Start || !errors.Is(err, errNobody) {
		return c, err
	}
	return start(ctx, o)
}

// errNobody: no daemon listens, so one may be started.
var errNobody = errors.New("none is running")

// errDraining: one answers, and leaves as soon as it has finished what is in progress.
var errDraining = fmt.Errorf("the last one is still finishing what is in progress: %w", errNobody)

// NotRunning says whether an error of [Connect] means that there is no daemon at all.
func NotRunning(err error) bool { return errors.Is(err, errNobody) }

// dialDaemon makes a client for the daemon that answers now.
func dialDaemon(ctx context.Context, o Options) (*Client, error) {
	// The noted place first; when nobody is there, the place where a daemon started now would be.
	socket := findSocket(o.Root, o.Runtime)
	c, err := meet(ctx, o, socket)
	for range 3 {
		if !vanished(err) {
			break
		}
		c, err = meet(ctx, o, socket)
	}
	if own := o.Runtime.ControlSocket(); errors.Is(err, errNobody) && own != socket {
		c, err = meet(ctx, o, own)
	}
	return c, err
}

// vanished says whether the connection broke before there was an answer: that daemon was ending, and
// asking again shows what is there now.
func vanished(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

func meet(ctx context.Context, o Options, socket string) (*Client, error) {
	c := NewClient(socket)
	tctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	h, err := c.Health(tctx)
	switch {
	case err != nil && ctx.Err() == nil && tctx.Err() != nil:
		err = problem.New(problem.Unreachable, fmt.Sprintf("a daemon listens and does not answer within %v", healthTimeout),
			fmt.Sprintf("`daemon logs` shows what it said. Its socket is %s.", socket))
	case err == nil && !sameRoot(h.Root, o.Root):
		err = problem.New(problem.Unreachable, fmt.Sprintf("the daemon at %s serves another data root: %s", socket, h.Root), "")
	case err == nil && h.API != wire.API:
		err = problem.New(problem.Refused, fmt.Sprintf("the daemon is of version %s and speaks another protocol than this program, %s", h.Version, o.Version),
			fmt.Sprintf("End it with the program that it belongs to, or with `kill %d`; machines go on running.", h.PID))
	}
	if err == nil && h.Closing && o.Start {
		err = problem.Wrap(problem.Unreachable, errDraining, "find a daemon", "Try again a little later.")
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	if h.Version != o.Version && o.Skew != nil {
		o.Skew(h)
	}
	return c, nil
}

func sameRoot(a, b layout.Root) bool {
	if a == b {
		return true
	}
	fa, err := os.Stat(string(a))
	if err != nil {
		return false
	}
	fb, err := os.Stat(string(b))
	return err == nil && os.SameFile(fa, fb)
}

// start runs daemons until one answers, this front's or another's.
func start(ctx context.Context, o Options) (*Client, error) {
	if o.Deadline == 0 {
		o.Deadline = defaultDeadline
	}
	if len(o.Command) == 0 {
		exe, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program: %w", err)
		}
		o.Command = append([]string{exe}, DaemonArgs()...)
	}
	logStart, err := prepareRoot(o.Root)
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(o.Deadline)
	for {
		if c, err := outlast(ctx, o, deadline); err == nil || !errors.Is(err, errNobody) || errors.Is(err, errDraining) {
			return c, err
		}
		child, err := spawn(o)
		if err != nil {
			return nil, problem.Wrap(problem.Unreachable, err, "start the daemon", "")
		}
		c, retry, err := await(ctx, o, child, deadline)
		if err == nil {
			return c, nil
		}
		if !retry {
			if ctx.Err() != nil {
				return nil, problem.Wrap(problem.Interrupted, context.Cause(ctx), "", "")
			}
			return nil, withLog(err, o.Root, logStart)
		}
	}
}

// outlast waits while a daemon that is leaving is in the way. Starting another one beside it would be in vain: it
// holds the lock to the end.
func outlast(ctx context.Context, o Options, deadline time.Time) (*Client, error) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		c, err := dialDaemon(ctx, o)
		if !errors.Is(err, errDraining) || time.Now().After(deadline) {
			return c, err
		}
		select {
		case <-ctx.Done():
			return nil, problem.Wrap(problem.Interrupted, context.Cause(ctx), "", "")
		case <-tick.C:
		}
	}
}

// prepareRoot makes what must be there before a daemon can say anything, and returns the size of its log.
func prepareRoot(root layout.Root) (int64, error) {
	for _, dir := range []string{string(root), root.Logs()} {
		if err := layout.Ensure(dir); err != nil {
			return 0, problem.Wrap(problem.Failed, err, "use the data directory",
				fmt.Sprintf("chmod 700 %s closes it to others; BROMURE_HOME names another one.", dir))
		}
	}
	fi, err := os.Stat(root.DaemonLog())
	if err != nil {
		return 0, nil
	}
	return fi.Size(), nil
}

// spawn starts a daemon in a session of its own, so that neither the end of the terminal nor a
// ctrl-c in it reaches the daemon.
func spawn(o Options) (<-chan error, error) {
	log, err := os.OpenFile(o.Root.DaemonLog(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, layout.FileMode)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(o.Command[0], o.Command[1:]...)
	cmd.Dir = "/"
	cmd.Env = append(withoutRoot(os.Environ()), "BROMURE_HOME="+string(o.Root))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = ownSession()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return ended, nil
}

func withoutRoot(env []string) []string {
	out := env[:0:0]
	for _, kv := range env {
		if !strings.HasPrefix(kv, "BROMURE_HOME=") {
			out = append(out, kv)
		}
	}
	return out
}

// await waits until a daemon answers. retry means that the child lost against another one, which has
// not answered either: it may have been on its way out.
func await(ctx context.Context, o Options, ended <-chan error, deadline time.Time) (c *Client, retry bool, err error) {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	var lostAt time.Time
	for {
		c, err := dialDaemon(ctx, o)
		if err == nil || !errors.Is(err, errNobody) {
			return c, false, err
		}
		now := time.Now()
		switch {
		case now.After(deadline):
			return nil, false, problem.New(problem.Unreachable, fmt.Sprintf("the daemon did not answer within %v", o.Deadline), "")
		case !lostAt.IsZero() && now.Sub(lostAt) > restartInterval:
			return nil, true, err
		}
		select {
		case <-ctx.Done():
			return nil, false, ctx.Err()
		case exit := <-ended:
			ended = nil
			if code, ok := errors.AsType[*exec.ExitError](exit); ok && code.ExitCode() == ExitLost {
				lostAt = now
				continue
			}
			if c, err := dialDaemon(ctx, o); err == nil {
				return c, false, nil
			}
			if exit == nil {
				exit = errors.New("it ended by itself")
			}
			return nil, false, problem.Wrap(problem.Unreachable, exit, "the daemon did not start", "")
		case <-tick.C:
		}
	}
}
