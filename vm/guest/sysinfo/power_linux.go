package sysinfo

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Kind is how a machine is to end.
type Kind int

const (
	PowerOff Kind = iota
	Reboot
)

func (k Kind) command() int {
	if k == Reboot {
		return unix.LINUX_REBOOT_CMD_RESTART
	}
	return unix.LINUX_REBOOT_CMD_POWER_OFF
}

// systemd's signals for its poweroff.target and reboot.target: SIGRTMIN+4 and +5 (systemd(1), "Signals"), where SIGRTMIN is
// the C library's 34.
func (k Kind) signal() unix.Signal {
	if k == Reboot {
		return unix.Signal(34 + 5)
	}
	return unix.Signal(34 + 4)
}

// Limits of the time that a system gets to end by itself.
const (
	defaultGrace = 20 * time.Second
	maxGrace     = 5 * time.Minute
	// Sessions get a third of it, and at most this: a shell ends at once, an editor writes its swap file.
	maxSessions = 5 * time.Second
)

// graces divides the time that a shutdown may take: how long sessions get, and when the system is ended by force.
func graces(asked time.Duration) (sessions, all time.Duration) {
	all = asked
	if asked <= 0 {
		all = defaultGrace
	}
	all = min(all, maxGrace)
	return min(all/3, maxSessions), all
}

// Power ends a running system, once.
type Power struct {
	Sessions Group       // what was started over SSH, and has to go first
	Init     func() bool // whether process 1 is the distribution's init

	Ask   func(Kind) error // asks that init to end the system; default [AskInit]
	Force func(Kind) error // ends it; default [Force]
	Log   func(string)

	once sync.Once
}

// AskInit asks systemd to end the system.
func AskInit(k Kind) error { return unix.Kill(1, k.signal()) }

// End begins to end the system in an orderly way and returns at once. After grace it is ended by force. A second call
// changes nothing.
func (p *Power) End(k Kind, grace time.Duration) {
	p.once.Do(func() {
		if p.Ask == nil {
			p.Ask = AskInit
		}
		if p.Force == nil {
			p.Force = Force
		}
		go p.end(k, grace)
	})
}

func (p *Power) end(k Kind, grace time.Duration) {
	sessions, all := graces(grace)
	deadline := time.Now().Add(all)

	// Interactive shells ignore SIGTERM and end on SIGHUP; SIGCONT wakes what is stopped, so that it can end.
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGHUP, unix.SIGCONT} {
		p.tell("end the sessions", p.Sessions.signal(sig))
	}
	if p.Init() {
		p.tell("ask init to end", p.Ask(k))
	}
	if !p.Sessions.waitEmpty(sessions) {
		p.Log("sessions did not end in time and are killed")
		p.tell("kill the sessions", p.Sessions.kill())
	}
	// systemd takes the signal as soon as it has set up its signal handling, and before that the kernel drops it: process 1 is
	// spared what it does not handle. A second one changes nothing. So it is repeated; normally the machine is off before that.
	again := time.NewTicker(askAgain)
	defer again.Stop()
	for p.Init() && time.Now().Before(deadline) {
		<-again.C
		p.tell("ask init to end", p.Ask(k))
	}
	p.Log("ending the system by force")
	p.tell("end the system", p.Force(k))
}

// askAgain is how often init is asked.
const askAgain = time.Second

func (p *Power) tell(what string, err error) {
	if err != nil {
		p.Log(what + ": " + err.Error())
	}
}

// forceTimeout bounds how long the kernel may take to make every file system read-only.
const forceTimeout = 10 * time.Second

// Force ends the system at once and leaves its file systems clean. It returns only on an error.
//
// The order matters. First everything is stopped, not killed: process 1 would start anew what is killed, while
// what is stopped writes nothing and stays as it is. A plain sync leaves ext4's journal to be replayed ("needs
// recovery"); only an unmount or a change to read-only ends it. Home and the root file system are unmounted and made
// read-only where nothing has a file open for writing, and by the kernel's emergency remount where something has.
func Force(k Kind) error {
	if err := unix.Kill(-1, unix.SIGSTOP); err != nil && err != unix.ESRCH {
		return fmt.Errorf("stop all processes: %w", err)
	}
	unix.Sync()
	settle()
	if err := unix.Reboot(k.command()); err != nil {
		return fmt.Errorf("reboot: %w", err)
	}
	return errors.New("reboot: the machine still runs")
}

// settle makes every file system on a disk read-only.
func settle() {
	b, err := readBounded("/proc/self/mountinfo", maxProcFile)
	if err != nil {
		return
	}
	mounts := parseMounts(b)
	for _, m := range slices.Backward(mounts) { // later ones may lie on earlier ones
		if !m.writable {
			continue
		}
		if m.point != "/" && unix.Unmount(m.point, unix.UMOUNT_NOFOLLOW) == nil {
			continue
		}
		_ = unix.Mount("", m.point, "", unix.MS_REMOUNT|unix.MS_RDONLY, "")
	}
	if !anyWritable() {
		return
	}
	// Documentation/admin-guide/sysrq.rst: "u" makes all mounted file systems read-only, whoever writes. It
	// is done in the background.
	if err := os.WriteFile("/proc/sysrq-trigger", []byte("u"), 0); err != nil {
		return
	}
	for end := time.Now().Add(forceTimeout); anyWritable() && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
}

func anyWritable() bool {
	b, err := readBounded("/proc/self/mountinfo", maxProcFile)
	return err == nil && slices.ContainsFunc(parseMounts(b), func(m mount) bool { return m.writable })
}

// mount is a mounted file system of a disk.
type mount struct {
	point    string
	writable bool // the file system, whatever this mount of it allows
}

// parseMounts reads /proc/self/mountinfo (proc(5)) and returns the mounts whose source is a block device.
func parseMounts(b []byte) (out []mount) {
	for line := range bytes.Lines(b) {
		// 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
		head, tail, ok := bytes.Cut(line, []byte(" - "))
		f, t := bytes.Fields(head), bytes.Fields(tail)
		if !ok || len(f) < 6 || len(t) < 3 || !bytes.HasPrefix(t[1], []byte("/dev/")) {
			continue
		}
		opts := strings.Split(string(t[2]), ",")
		out = append(out, mount{unescapeMount(string(f[4])), slices.Contains(opts, "rw")})
	}
	return out
}

// unescapeMount undoes the kernel's octal escapes for space, tab, newline, backslash and '#'.
func unescapeMount(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			n, ok := 0, true
			for _, c := range []byte(s[i+1 : i+4]) {
				ok = ok && c >= '0' && c <= '7'
				n = n*8 + int(c-'0')
			}
			if ok && n < 256 {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
