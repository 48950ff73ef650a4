package agent

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"bromure.io/tui/vm/guest"
	"bromure.io/tui/vm/guest/sysinfo"
)

// Files that the processes of this package inherit, by number. The last one is the pipe on which the first server reports that it
// serves, or by which a standby sees its server die.
const (
	fdBoot = 3 + iota
	fdListener
	fdNotify
	fdPipe
)

// Arguments of the program, after its name.
const (
	// Command is the argument with which this program is the server. A second one, where there is one, is the number of
	// servers that died quickly before it.
	Command = "agent"
	// StandbyCommand is the argument with which it waits to become one.
	StandbyCommand = "standby"
)

// The name of our processes. What systemd-shutdown sees is its first character.
const name = "@bromure-guest"

// self is the running program, wherever its file has gone: the initramfs is emptied.
const self = "/proc/self/exe"

// notifySocket is where the distribution's init says that it is ready (sd_notify(3)): an abstract address.
const notifySocket = "@bromure.io/notify"

// Start starts the server with an open listener, and returns when it serves. It is called by process 1, whose place the
// distribution's init takes with environ added to its environment.
func Start(boot guest.Boot, listener *os.File) (environ []string, err error) {
	file, err := memoryFile(boot)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	notify, err := listenNotify(notifySocket)
	if err != nil {
		return nil, err
	}
	defer notify.Close()
	ready, report, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer ready.Close()

	cmd := exec.Command(self)
	cmd.Args = []string{name, Command}
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{file, listener, notify, report}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if group, err := makeGroups(); err == nil {
		defer group.Close()
		cmd.SysProcAttr.UseCgroupFD = true
		cmd.SysProcAttr.CgroupFD = int(group.Fd())
	}
	err = cmd.Start()
	report.Close()
	if err != nil {
		return nil, fmt.Errorf("start the SSH server: %w", err)
	}
	line, err := bufio.NewReader(io.LimitReader(ready, 4096)).ReadString('\n')
	switch {
	case err != nil:
		return nil, errors.New("the SSH server ended before it served")
	case line != readyLine:
		return nil, errors.New(strings.TrimSpace(line))
	}
	return []string{"NOTIFY_SOCKET=" + notifySocket}, nil
}

// readyLine is what the server reports when it serves; every other line is why it does not.
const readyLine = "ready\n"

// memoryFile puts the boot file where only our processes find it: in memory, without a name.
func memoryFile(boot guest.Boot) (*os.File, error) {
	b, err := json.Marshal(boot)
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("bromure-boot", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), "boot")
	if _, err := f.Write(b); err != nil {
		f.Close()
		return nil, fmt.Errorf("write a file in memory: %w", err)
	}
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		f.Close()
		return nil, fmt.Errorf("seal a file in memory: %w", err)
	}
	return f, nil
}

// makeGroups makes our control groups and opens the one of the server. A system without them works, less tidily.
func makeGroups() (*os.File, error) {
	for _, dir := range []string{sysinfo.SessionGroup, sysinfo.AgentGroup} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	return os.Open(sysinfo.AgentGroup)
}
