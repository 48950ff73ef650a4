package sysinfo

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Control groups (v2) of the guest program. They are beside the distribution's: systemd moves what it finds in
// the root group into its own, but leaves other groups alone.
const (
	CgroupRoot = "/sys/fs/cgroup"
	// AgentGroup holds the guest program itself, SessionGroup what was started over SSH.
	AgentGroup   = CgroupRoot + "/bromure/agent"
	SessionGroup = CgroupRoot + "/bromure/sessions"
)

// maxMembers bounds how many processes of a group are looked at.
const maxMembers = 1 << 16

// Group is a control group by its directory, with the groups below it.
type Group string

// signal sends sig to every process of the group. One that is gone already is no error.
func (g Group) signal(sig unix.Signal) error {
	pids, err := g.members()
	for _, pid := range pids {
		if e := unix.Kill(pid, sig); e != nil && e != unix.ESRCH {
			err = errors.Join(err, fmt.Errorf("signal process %d: %w", pid, e))
		}
	}
	return err
}

// kill ends every process of the group, also those that fork meanwhile (cgroup.kill, Linux 5.14).
func (g Group) kill() error {
	err := os.WriteFile(filepath.Join(string(g), "cgroup.kill"), []byte("1"), 0)
	if errors.Is(err, os.ErrNotExist) {
		return g.signal(unix.SIGKILL)
	}
	return err
}

func (g Group) members() ([]int, error) {
	var pids []int
	err := filepath.WalkDir(string(g), func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil // no such group, or it has just gone
		}
		if err != nil || d.Name() != "cgroup.procs" {
			return err
		}
		b, err := readBounded(path, maxProcFile)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ENODEV) {
			return err
		}
		pids = append(pids, parseMembers(b, maxMembers-len(pids))...)
		return nil
	})
	if err != nil {
		return pids, fmt.Errorf("list the processes of %s: %w", g, err)
	}
	return pids, nil
}

// parseMembers reads cgroup.procs: a process number per line; 0 stands for one of another namespace.
func parseMembers(b []byte, limit int) (pids []int) {
	for line := range bytes.Lines(b) {
		if len(pids) >= limit {
			break
		}
		if n, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 10, 32); err == nil && n > 1 {
			pids = append(pids, int(n))
		}
	}
	return pids
}

// parsePopulated reads cgroup.events.
func parsePopulated(b []byte) bool {
	for line := range bytes.Lines(b) {
		if string(bytes.TrimSpace(line)) == "populated 1" {
			return true
		}
	}
	return false
}

// waitEmpty returns when the group has no process any more, or false after timeout. The kernel reports a
// change of cgroup.events as an exceptional condition.
func (g Group) waitEmpty(timeout time.Duration) bool {
	f, err := os.Open(filepath.Join(string(g), "cgroup.events"))
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	defer f.Close()
	deadline := time.Now().Add(timeout)
	buf := make([]byte, 256)
	for {
		n, err := f.ReadAt(buf, 0)
		if n == 0 && err != nil {
			return true // the group itself is gone
		}
		if !parsePopulated(buf[:n]) {
			return true
		}
		left := time.Until(deadline)
		if left <= 0 {
			return false
		}
		p := []unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLPRI}}
		if _, err := unix.Poll(p, int(left/time.Millisecond)+1); err != nil && err != unix.EINTR {
			return false
		}
	}
}
