package controltest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"github.com/creack/pty"

	"bromure.io/tui/internal/control"
	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/internal/verb"
	"bromure.io/tui/vm/guest"
)

// Attach is [control.Service.Attach]: programs run on the host, in a process group of their own.
func (f *Fake) Attach(ctx context.Context, ref string, a wire.Attach) (control.Stream, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w, err := f.allowed(ref, verb.Exec)
	if err != nil {
		return nil, err
	}
	if a.Console != nil {
		return f.console(ctx, w, *a.Console)
	}
	return run(ctx, *a.Exec)
}

// Forward is [control.Service.Forward]: every port of the fake guest echoes.
func (f *Fake) Forward(_ context.Context, ref, addr string) (io.ReadWriteCloser, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.allowed(ref, verb.Exec); err != nil {
		return nil, err
	}
	if _, port, _ := net.SplitHostPort(addr); port == "1" {
		return nil, problem.New(problem.Refused, "connect to "+addr+" in the guest: connection refused", "")
	}
	r, w := io.Pipe()
	return echo{r, w}, nil
}

type echo struct {
	*io.PipeReader
	*io.PipeWriter
}

func (e echo) CloseWrite() error { return e.PipeWriter.Close() }
func (e echo) Close() error      { e.PipeWriter.Close(); return e.PipeReader.Close() }

// process is a [control.Stream] around a process of the host.
type process struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	out   io.ReadCloser
	err   io.ReadCloser
	tty   *os.File
	once  sync.Once
	done  chan struct{}
}

func run(ctx context.Context, e guest.Exec) (control.Stream, error) {
	argv := e.Argv
	if e.Shell {
		argv = []string{"sh", "-c", e.Argv[0]}
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = e.Dir
	cmd.Env = append(os.Environ(), "USER="+guest.User)
	if e.Root {
		cmd.Env = append(cmd.Env, "USER=root")
	}
	for k, v := range e.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	var err error
	if e.TTY {
		cmd.Env = append(cmd.Env, "TERM="+e.Term)
		p.tty, err = pty.StartWithSize(cmd, &pty.Winsize{Cols: uint16(e.Size.Cols), Rows: uint16(e.Size.Rows)})
		p.stdin, p.out, p.err = noClose{p.tty}, p.tty, io.NopCloser(emptyReader{})
	} else {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		p.stdin, _ = cmd.StdinPipe()
		var outW, errW *os.File
		p.out, outW, _ = os.Pipe()
		p.err, errW, _ = os.Pipe()
		cmd.Stdout, cmd.Stderr = outW, errW
		err = cmd.Start()
		outW.Close()
		errW.Close()
	}
	if err != nil {
		p.closeFiles()
		return unstarted{code: startCode(err), err: fmt.Errorf("start %q: %w", argv[0], err)}, nil
	}
	unhook := context.AfterFunc(ctx, func() { p.Close() })
	go func() {
		_ = cmd.Wait()
		unhook()
		close(p.done)
	}()
	return p, nil
}

type emptyReader struct{}

func (emptyReader) Read([]byte) (int, error) { return 0, io.EOF }

type noClose struct{ io.Writer }

func (noClose) Close() error { return nil }

func (p *process) Stdin() io.WriteCloser { return p.stdin }
func (p *process) Stdout() io.Reader     { return p.out }
func (p *process) Stderr() io.Reader     { return p.err }

func (p *process) Resize(s guest.Size) error {
	if p.tty == nil {
		return errors.New("no terminal")
	}
	return pty.Setsize(p.tty, &pty.Winsize{Cols: uint16(s.Cols), Rows: uint16(s.Rows)})
}

func (p *process) Signal(name string) error {
	sig, ok := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP, "QUIT": syscall.SIGQUIT, "KILL": syscall.SIGKILL}[name]
	if !ok {
		return fmt.Errorf("unknown signal %q", name)
	}
	return syscall.Kill(-p.cmd.Process.Pid, sig)
}

func (p *process) Wait() (int, error) {
	<-p.done
	ws := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return ws.ExitStatus(), nil
}

func (p *process) Close() error {
	p.once.Do(func() {
		select {
		case <-p.done: // its number may be another's by now
		default:
			_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGHUP)
		}
		p.closeFiles()
	})
	return nil
}

func (p *process) closeFiles() {
	for _, c := range []io.Closer{p.stdin, p.out, p.err} {
		if c != nil {
			c.Close()
		}
	}
}
