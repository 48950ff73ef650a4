//go:build linux

package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// HangupGrace is how long a session has to end after SIGHUP, before SIGKILL.
const HangupGrace = 5 * time.Second

// hangupPoll is how often a session is looked at meanwhile. The kernel reports the end of a process, not of a session.
const hangupPoll = 100 * time.Millisecond

// Hangup ends everything in the program's session: whoever started it is gone. It sends SIGHUP (and SIGCONT,
// so that stopped jobs notice) and after grace SIGKILL. Spared is what ignores SIGHUP, as nohup(1)
// arranges, and what left the session, as setsid(1) does: both were told to live on. The program itself is not
// spared; it is what the caller ran. Hangup returns when the session is at its end, or at once when it
// was called before.
func (p *Process) Hangup(grace time.Duration) {
	p.hangup.Do(func() { p.endSession(grace) })
}

func (p *Process) endSession(grace time.Duration) {
	leader := p.proc.Pid
	signalAll(session(leader), unix.SIGHUP, unix.SIGCONT)
	deadline := time.NewTimer(grace)
	defer deadline.Stop()
	tick := time.NewTicker(hangupPoll)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-deadline.C:
			// One round may miss a child that is being forked.
			for range 10 {
				left := p.remaining()
				if len(left) == 0 {
					break
				}
				signalAll(left, unix.SIGKILL)
				<-tick.C
			}
			return
		}
		// The session's number cannot be used again while it has members, and looking ten times a
		// second is faster than process numbers wrap.
		if len(p.remaining()) == 0 {
			return
		}
	}
}

// remaining are the members of the session that have to go.
func (p *Process) remaining() []int {
	var out []int
	for _, pid := range session(p.proc.Pid) {
		if pid == p.proc.Pid {
			select {
			case <-p.done:
				continue
			default:
			}
		} else if ignoresHangup(pid) {
			continue
		}
		out = append(out, pid)
	}
	return out
}

func signalAll(pids []int, sigs ...unix.Signal) {
	for _, pid := range pids {
		for _, s := range sigs {
			_ = unix.Kill(pid, s) // ESRCH: it is gone, which is what we want
		}
	}
}

// session lists the living members of a session, its leader included.
func session(sid int) []int {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil
	}
	var out []int
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid <= 1 {
			continue
		}
		b, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		state, s, err := parseStat(b)
		if err == nil && s == sid && state != 'Z' && state != 'X' {
			out = append(out, pid)
		}
	}
	return out
}

// parseStat reads the state and the session of a process from its stat file, proc(5): fields 3 and 6. The name
// before them is in parentheses and may contain anything, parentheses too.
func parseStat(b []byte) (state byte, sid int, err error) {
	i := bytes.LastIndexByte(b, ')')
	f := strings.Fields(string(b[i+1:]))
	if i < 0 || len(f) < 4 || len(f[0]) != 1 {
		return 0, 0, fmt.Errorf("process status %.60q: unknown form", b)
	}
	sid, err = strconv.Atoi(f[3])
	return f[0][0], sid, err
}

// ignoresHangup reports whether SIGHUP is set to be ignored: bit 0 of SigIgn in proc(5)'s status file.
func ignoresHangup(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return false
	}
	_, rest, ok := bytes.Cut(b, []byte("\nSigIgn:\t"))
	if !ok {
		return false
	}
	hex, _, _ := bytes.Cut(rest, []byte("\n"))
	mask, err := strconv.ParseUint(string(hex), 16, 64)
	return err == nil && mask&(1<<(unix.SIGHUP-1)) != 0
}
