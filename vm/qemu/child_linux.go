package qemu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/qemu/qmp"
)

// child is a QEMU that this process has started.
type child struct {
	proc   *process
	exited chan struct{} // closed when it has been waited for
	state  *os.ProcessState
	log    *os.File
}

// run starts QEMU in a session of its own. Its output replaces what logPath held; extra become the
// descriptors from 3 on, and nothing else is inherited.
func run(bin string, args []string, logPath string, extra ...*os.File) (*child, error) {
	log, err := os.OpenFile(logPath, os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND|unix.O_NOFOLLOW, layout.FileMode)
	if err != nil {
		return nil, fmt.Errorf("start QEMU: open its log: %w", err)
	}
	// Descriptors that this process itself inherited from whoever started it may lack close-on-exec.
	_ = unix.CloseRange(3, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC)
	cmd := exec.Command(bin, args...)
	cmd.Env = childEnv()
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = extra
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		_ = log.Close()
		return nil, problem.Wrap(problem.Missing, err, "start QEMU", "Is "+bin+" a working program?")
	}
	c := &child{exited: make(chan struct{}), log: log}
	// A child that was not waited for keeps its number, so this cannot mean another process.
	c.proc, err = openProcess(cmd.Process.Pid)
	if err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
		return nil, fmt.Errorf("start QEMU: %w", err)
	}
	// No core file: it would hold the guest's disks' contents and survive their erasure.
	_ = unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_CORE, &unix.Rlimit{}, nil)
	go func() {
		_ = cmd.Wait()
		c.state = cmd.ProcessState
		_ = log.Close()
		close(c.exited)
	}()
	return c, nil
}

// end kills the child and waits until it is gone.
func (c *child) end() {
	_ = c.proc.kill()
	<-c.exited
	c.proc.close()
}

// explain finds out why QEMU could not be brought up: its own words, when it has ended by itself.
func (c *child) explain(ctx context.Context, err error, spec vm.Spec) error {
	if ctx.Err() != nil {
		kind := problem.Interrupted
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			kind = problem.DeadlineMiss
		}
		return problem.Wrap(kind, err, "start QEMU", "")
	}
	if !errors.Is(err, qmp.ErrClosed) && !errors.Is(err, io.EOF) && !errors.Is(err, unix.ECONNRESET) && !errors.Is(err, unix.EPIPE) {
		return problem.Wrap(problem.Failed, err, "start QEMU", "")
	}
	// Its sockets are closed, so it is about to be gone.
	select {
	case <-c.exited:
	case <-time.After(commandTimeout):
		return problem.Wrap(problem.Failed, err, "start QEMU", "")
	}
	words, readErr := tail(spec.Log)
	if readErr != nil {
		return problem.Wrap(problem.Failed, errors.Join(err, readErr), "start QEMU", "")
	}
	if clean(words) == "" {
		words = c.state.String() // "exit status 1", "signal: killed"
	}
	return complaint(words, spec.Accelerator)
}

// tail reads the end of a file.
func tail(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if fi, err := f.Stat(); err == nil && fi.Size() > maxWords {
		if _, err := f.Seek(-maxWords, io.SeekEnd); err != nil {
			return "", err
		}
	}
	b, err := io.ReadAll(io.LimitReader(f, maxWords))
	return string(b), err
}
