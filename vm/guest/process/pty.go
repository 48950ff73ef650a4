//go:build linux

package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"bromure.io/tui/vm/guest"
)

// openPTY makes a terminal. Its master is in non-blocking mode, so that the runtime's poller serves it: a read
// takes no thread, has deadlines, and ends when the file is closed (libraries that call Fd lose that). The
// slave is opened by TIOCGPTPEER, which needs no path: /dev/pts may be another mount by now.
func openPTY() (master, slave *os.File, err error) {
	m, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make a terminal: open /dev/ptmx: %w", err)
	}
	master = os.NewFile(uintptr(m), "/dev/ptmx")
	if err := unix.IoctlSetPointerInt(m, unix.TIOCSPTLCK, 0); err != nil {
		master.Close()
		return nil, nil, fmt.Errorf("make a terminal: unlock: %w", err)
	}
	s, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(m), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if e != 0 {
		master.Close()
		return nil, nil, fmt.Errorf("make a terminal: open its other side: %w", e)
	}
	return master, os.NewFile(s, "tty"), nil
}

func resize(f *os.File, s guest.Size) error {
	s = s.Clamp()
	if s.IsZero() {
		return nil
	}
	ws := &unix.Winsize{Col: uint16(s.Cols), Row: uint16(s.Rows)}
	if err := control(f, func(fd int) error { return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, ws) }); err != nil {
		return fmt.Errorf("resize the terminal: %w", err)
	}
	return nil
}

// foreground is the process group in the foreground of the terminal whose master f is.
func foreground(f *os.File) (group int, err error) {
	err = control(f, func(fd int) (err error) {
		group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	})
	return group, err
}

// control calls f with the descriptor of file, which stays in non-blocking mode.
func control(file *os.File, f func(fd int) error) error {
	c, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := c.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}

// Terminal is a process that was started with a TTY, as something to read from and write to.
type Terminal struct{ *Process }

// Read reads what the programs on the terminal print. When the last of them has closed it, the kernel says EIO
// to the master, which is the end of file here.
func (t Terminal) Read(b []byte) (int, error) {
	n, err := t.TTY.Read(b)
	if err != nil && errors.Is(err, unix.EIO) {
		err = io.EOF
	}
	return n, err
}

// Write types b into the terminal.
func (t Terminal) Write(b []byte) (int, error) { return t.TTY.Write(b) }

// SetReadDeadline bounds reads that wait.
func (t Terminal) SetReadDeadline(at time.Time) error { return t.TTY.SetReadDeadline(at) }

// Hangup ends the session with the usual grace.
func (t Terminal) Hangup() { t.Process.Hangup(HangupGrace) }

// EndInput types the end-of-file character, if the terminal is in a mode in which that means something:
// twice after an unfinished line, since the first only completes it.
func (t Terminal) EndInput(midLine bool) {
	var tio *unix.Termios
	err := control(t.TTY, func(fd int) (err error) {
		tio, err = unix.IoctlGetTermios(fd, unix.TCGETS)
		return err
	})
	if err != nil || tio.Lflag&unix.ICANON == 0 || tio.Cc[unix.VEOF] == 0 {
		return
	}
	eof := []byte{tio.Cc[unix.VEOF]}
	if midLine {
		eof = append(eof, eof[0])
	}
	_, _ = t.TTY.Write(eof)
}
