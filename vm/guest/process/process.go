//go:build linux

// Package process starts programs in the guest as a user, on pipes or on a terminal, each in a session of its own
// (setsid(2)), and ends such a session. It knows nothing of SSH.
package process

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"bromure.io/tui/vm/guest"
	"bromure.io/tui/vm/guest/login"
)

// Spec is a program to start.
type Spec struct {
	Account login.Account
	Path    string   // what is executed
	Argv    []string // with the zeroth argument
	Env     []string // complete, as environ(7)
	Dir     string   // empty: the account's home, "/" where that cannot be entered

	// Cgroup is the directory of the control group that the program begins in. Where it is
	// empty or not there, the program is in the group of whoever starts it.
	Cgroup string

	// On a terminal, standard input, output and error are one.
	TTY      bool
	Size     guest.Size
	Modes    Modes
	TTYGroup uint32 // group of the terminal's device: tty(5)
}

// Process is a running program. Who starts one calls [Process.Wait] once, and [Process.Close] at the end.
type Process struct {
	Stdin          *os.File // nil with a terminal
	Stdout, Stderr *os.File // nil with a terminal
	TTY            *os.File // the terminal's master side; nil without one

	proc *os.Process
	exit guest.Exit
	done chan struct{}

	hangup sync.Once
}

// StartError is a program that could not be started.
type StartError struct {
	Code int // [guest.CannotRun] or [guest.NotFound]
	Err  error
}

func (e *StartError) Error() string { return e.Err.Error() }
func (e *StartError) Unwrap() error { return e.Err }

// Start starts the program. An error is a [*StartError] when it is the program's fault.
func Start(spec Spec) (*Process, error) {
	p := &Process{done: make(chan struct{})}
	var child []*os.File
	var err error
	if spec.TTY {
		child, err = p.terminal(spec)
	} else {
		child, err = p.pipes(spec.Account)
	}
	defer closeAll(child)
	if err == nil {
		err = p.start(spec, child)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	go p.reap()
	return p, nil
}

// pipes makes the three pipes and returns the program's ends.
func (p *Process) pipes(a login.Account) (child []*os.File, err error) {
	var files [6]*os.File
	for i := 0; i < 6; i += 2 {
		files[i], files[i+1], err = os.Pipe()
		if err != nil {
			closeAll(files[:])
			return nil, fmt.Errorf("make a pipe: %w", err)
		}
	}
	child = []*os.File{files[0], files[3], files[5]}
	p.Stdin, p.Stdout, p.Stderr = files[1], files[2], files[4]
	if os.Geteuid() == 0 {
		// The program may open /dev/stdout and its like again, which asks for the pipe's owner.
		for _, f := range child {
			if err := f.Chown(int(a.UID), int(a.GID)); err != nil {
				return child, fmt.Errorf("give a pipe to %s: %w", a.Name, err)
			}
		}
	}
	return child, nil
}

// terminal makes the terminal and returns the program's end, three times.
func (p *Process) terminal(spec Spec) (child []*os.File, err error) {
	master, slave, err := openPTY()
	if err != nil {
		return nil, err
	}
	p.TTY = master
	child = []*os.File{slave, slave, slave}
	if err := spec.Modes.apply(slave); err != nil {
		return child, err
	}
	if err := resize(master, spec.Size); err != nil {
		return child, err
	}
	if os.Geteuid() == 0 {
		if err := errors.Join(slave.Chown(int(spec.Account.UID), int(spec.TTYGroup)), slave.Chmod(0o620)); err != nil {
			return child, fmt.Errorf("give the terminal to %s: %w", spec.Account.Name, err)
		}
	}
	return child, nil
}

func (p *Process) start(spec Spec, child []*os.File) error {
	sys := &syscall.SysProcAttr{Setsid: true}
	if spec.Cgroup != "" {
		if group, err := os.Open(spec.Cgroup); err == nil {
			defer group.Close()
			sys.UseCgroupFD, sys.CgroupFD = true, int(group.Fd())
		}
	}
	if spec.TTY {
		sys.Setctty, sys.Ctty = true, 0
	}
	if os.Geteuid() == 0 {
		sys.Credential = &syscall.Credential{Uid: spec.Account.UID, Gid: spec.Account.GID, Groups: spec.Account.Groups}
	}
	// What we inherited ourselves without close-on-exec is nobody's business either. An old kernel may not know the flag.
	_ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	attr := &os.ProcAttr{Dir: spec.Dir, Env: spec.Env, Files: child, Sys: sys}
	if spec.Dir == "" {
		attr.Dir = spec.Account.Home
		if st, err := os.Stat(attr.Dir); err != nil || !st.IsDir() {
			attr.Dir = "/"
		}
	} else if st, err := os.Stat(spec.Dir); err != nil || !st.IsDir() {
		// Without this the kernel's ENOENT would read as if the program were missing.
		if err == nil {
			err = unix.ENOTDIR
		}
		return &StartError{guest.CannotRun, fmt.Errorf("enter directory %q: %w", spec.Dir, errno(err))}
	}
	proc, err := os.StartProcess(spec.Path, spec.Argv, attr)
	if errors.Is(err, unix.EACCES) && spec.Dir == "" && filepath.IsAbs(spec.Path) {
		// Perhaps it is the home that the user may not enter.
		attr.Dir = "/"
		proc, err = os.StartProcess(spec.Path, spec.Argv, attr)
	}
	if err != nil {
		return startError(spec.Path, err)
	}
	p.proc = proc
	adjust(proc.Pid)
	return nil
}

// startError gives an error of fork or exec its code, by what execvp(3) callers use.
func startError(path string, err error) error {
	e := errno(err)
	code := guest.CannotRun
	switch {
	case errors.Is(e, unix.ENOENT), errors.Is(e, unix.ENOTDIR):
		code = guest.NotFound
	case errors.Is(e, unix.EAGAIN), errors.Is(e, unix.ENOMEM), errors.Is(e, unix.EMFILE):
		return fmt.Errorf("start %q: %w", path, e)
	}
	return &StartError{code, fmt.Errorf("start %q: %w", path, e)}
}

// errno takes the path and the operation off err; they would stand in it twice.
func errno(err error) error {
	if e, ok := errors.AsType[*os.PathError](err); ok {
		return e.Err
	}
	return err
}

// File limits that systemd gives to what it starts. Ours are the kernel's for its first process, whose
// hard limit of 4096 is too small for language servers and containers.
const (
	softFiles = 1024
	hardFiles = 512 << 10
)

// adjust gives a program what a login would have given. It is not told of failures: a
// program without them is worth more than none.
func adjust(pid int) {
	if os.Geteuid() != 0 {
		return
	}
	// The server itself may be protected from the out-of-memory killer; what it starts must not be.
	if f, err := os.OpenFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", os.O_WRONLY, 0); err == nil {
		f.WriteString("0")
		f.Close()
	}
	var lim unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &lim); err == nil && lim.Max < hardFiles {
		unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: softFiles, Max: hardFiles}, nil)
	}
}

// reap waits for the program, so that it never stays a zombie.
func (p *Process) reap() {
	defer close(p.done)
	st, err := p.proc.Wait()
	if err != nil {
		// Somebody else reaped it: a bug here, but no reason to wait for ever.
		p.exit = guest.Exit{Code: 255}
		return
	}
	ws := st.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		n := int(ws.Signal())
		p.exit = guest.Exit{Code: 128 + n, Signal: guest.SignalName(n)}
		return
	}
	p.exit = guest.Exit{Code: ws.ExitStatus()}
}

// PID is the program's, and the number of its session and first process group.
func (p *Process) PID() int { return p.proc.Pid }

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait returns how the program ended. What it started may live on.
func (p *Process) Wait() guest.Exit {
	<-p.done
	return p.exit
}

// Signal sends a signal to the process group in the terminal's foreground, or without a
// terminal to the program's own group.
func (p *Process) Signal(n int) error {
	group := p.proc.Pid
	if p.TTY != nil {
		if g, err := foreground(p.TTY); err == nil && g > 1 {
			group = g
		}
	}
	select {
	case <-p.done:
		// The number of a process that was reaped may already be another's.
		if group == p.proc.Pid {
			return os.ErrProcessDone
		}
	default:
	}
	if err := unix.Kill(-group, unix.Signal(n)); err != nil {
		return fmt.Errorf("signal process group %d: %w", group, err)
	}
	return nil
}

// Resize tells a terminal's size to its programs.
func (p *Process) Resize(s guest.Size) error {
	if p.TTY == nil {
		return errors.New("resize: the program has no terminal")
	}
	return resize(p.TTY, s)
}

// Close closes our ends of pipes and terminal. A terminal's programs get SIGHUP from the kernel by that.
func (p *Process) Close() {
	closeAll([]*os.File{p.Stdin, p.Stdout, p.Stderr, p.TTY})
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}
