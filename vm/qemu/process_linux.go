package qemu

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"bromure.io/tui/vm"
)

// procfs is where proc(5) is mounted. A type, so that tests can give their own.
type procfs string

const hostProc procfs = "/proc"

func (p procfs) path(elem ...string) string {
	return filepath.Join(append([]string{string(p)}, elem...)...)
}

// bootID is new at each boot of the host: process IDs and start times of another boot mean nothing.
func (p procfs) bootID() (string, error) {
	b, err := os.ReadFile(p.path("sys/kernel/random/boot_id"))
	if err != nil {
		return "", fmt.Errorf("read the host's boot ID: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// kernel is the host's kernel release.
func (p procfs) kernel() (string, error) {
	b, err := os.ReadFile(p.path("sys/kernel/osrelease"))
	if err != nil {
		return "", fmt.Errorf("read the host's kernel release: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// stat reads a process's state letter and start time (fields 3 and 22 of proc_pid_stat(5)). The
// second field is the program's name in brackets, and may hold brackets and spaces itself.
func (p procfs) stat(pid int) (state byte, start uint64, err error) {
	b, err := os.ReadFile(p.path(strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, 0, err
	}
	return parseStat(b)
}

func parseStat(b []byte) (state byte, start uint64, err error) {
	i := bytes.LastIndexByte(b, ')')
	if i < 0 {
		return 0, 0, errors.New("parse stat: no program name")
	}
	fields := strings.Fields(string(b[i+1:])) // from field 3 on
	if len(fields) < 20 || len(fields[0]) != 1 {
		return 0, 0, errors.New("parse stat: too few fields")
	}
	start, err = strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return 0, 0, fmt.Errorf("parse stat: start time: %w", err)
	}
	return fields[0][0], start, nil
}

// executable is the file that a process runs, also after a package upgrade has replaced that file.
func (p procfs) executable(pid int) (string, error) {
	exe, err := os.Readlink(p.path(strconv.Itoa(pid), "exe"))
	return strings.TrimSuffix(exe, " (deleted)"), err
}

// hasArgs says whether a process was started with these two arguments in a row.
func (p procfs) hasArgs(pid int, flag, value string) bool {
	b, err := os.ReadFile(p.path(strconv.Itoa(pid), "cmdline"))
	return err == nil && bytes.Contains(b, []byte("\x00"+flag+"\x00"+value+"\x00"))
}

// process is one process, held by a descriptor (pidfd_open(2)) that can never mean another one.
type process struct {
	pid int
	fd  *os.File
}

// openProcess takes hold of a process. When there is none, the error is [vm.ErrGone].
func openProcess(pid int) (*process, error) {
	if pid <= 1 {
		return nil, fmt.Errorf("%w: no process has the ID %d", vm.ErrGone, pid)
	}
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK) // close-on-exec by itself
	if errors.Is(err, unix.ESRCH) {
		return nil, fmt.Errorf("%w: process %d does not run", vm.ErrGone, pid)
	}
	if err != nil {
		return nil, fmt.Errorf("hold process %d: %w", pid, os.NewSyscallError("pidfd_open", err))
	}
	return newProcess(pid, fd), nil
}

// newProcess owns fd, a pidfd.
func newProcess(pid, fd int) *process {
	_ = unix.SetNonblock(fd, true) // so that the runtime's poller waits for it, and no thread does
	return &process{pid: pid, fd: os.NewFile(uintptr(fd), "pidfd:"+strconv.Itoa(pid))}
}

// prove checks that the process is the machine that rec names: everything but the process ID itself.
// The descriptor is older than the check, so what was checked is what will be signalled.
func (p *process) prove(proc procfs, rec vm.Record) error {
	boot, err := proc.bootID()
	if err != nil {
		return err
	}
	if boot != rec.BootID {
		return fmt.Errorf("%w: the host has been restarted", vm.ErrGone)
	}
	state, start, err := proc.stat(p.pid)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("%w: process %d does not run", vm.ErrGone, p.pid)
	}
	if err != nil {
		return fmt.Errorf("identify process %d: %w", p.pid, err)
	}
	if start != rec.StartTicks {
		return fmt.Errorf("%w: process %d is another one now", vm.ErrGone, p.pid)
	}
	if state == 'Z' || state == 'X' || p.gone() {
		return fmt.Errorf("%w: process %d has ended", vm.ErrGone, p.pid)
	}
	exe, err := proc.executable(p.pid)
	if err != nil {
		// Not our user's process: then it is not ours, whatever its number.
		return fmt.Errorf("%w: process %d cannot be identified: %w", vm.ErrGone, p.pid, err)
	}
	if exe != rec.Executable || !proc.hasArgs(p.pid, "-uuid", rec.UUID) {
		return fmt.Errorf("%w: process %d runs something else", vm.ErrGone, p.pid)
	}
	return nil
}

// kill sends SIGKILL. A process that has gone meanwhile is no error.
func (p *process) kill() error {
	var errno error
	conn, err := p.fd.SyscallConn()
	if err == nil {
		err = conn.Control(func(fd uintptr) { errno = unix.PidfdSendSignal(int(fd), unix.SIGKILL, nil, 0) })
	}
	if err != nil {
		return fmt.Errorf("kill process %d: %w", p.pid, err)
	}
	if errno != nil && !errors.Is(errno, unix.ESRCH) {
		return fmt.Errorf("kill process %d: %w", p.pid, os.NewSyscallError("pidfd_send_signal", errno))
	}
	return nil
}

// gone says whether the process has ended. When it has, the kernel has closed its descriptors and
// released its locks: a pidfd becomes readable after that (do_exit runs exit_files and the delayed
// fputs before exit_notify).
func (p *process) gone() bool {
	ended := false
	if conn, err := p.fd.SyscallConn(); err == nil {
		_ = conn.Control(func(fd uintptr) { ended = readable(int(fd)) })
	}
	return ended
}

// wait returns when the process has ended, or with an error after [process.close].
func (p *process) wait() error {
	conn, err := p.fd.SyscallConn()
	if err != nil {
		return err
	}
	return conn.Read(func(fd uintptr) bool { return readable(int(fd)) })
}

func (p *process) close() { _ = p.fd.Close() }

func readable(fd int) bool {
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		if !errors.Is(err, unix.EINTR) {
			return n == 1
		}
	}
}
