package sysinfo

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestGraces(t *testing.T) {
	for _, c := range []struct{ asked, sessions, all time.Duration }{
		{0, 5 * time.Second, 20 * time.Second},
		{-time.Second, 5 * time.Second, 20 * time.Second},
		{3 * time.Second, time.Second, 3 * time.Second},
		{time.Minute, 5 * time.Second, time.Minute},
		{time.Hour, 5 * time.Second, 5 * time.Minute},
	} {
		if s, a := graces(c.asked); s != c.sessions || a != c.all {
			t.Errorf("%v: %v of %v, want %v of %v", c.asked, s, a, c.sessions, c.all)
		}
	}
}

func TestSignalNumbers(t *testing.T) {
	// The C library's SIGRTMIN is 34, and systemd(1) counts from there.
	if PowerOff.signal() != 38 || Reboot.signal() != 39 {
		t.Errorf("%d, %d", PowerOff.signal(), Reboot.signal())
	}
	if PowerOff.command() != unix.LINUX_REBOOT_CMD_POWER_OFF || Reboot.command() != unix.LINUX_REBOOT_CMD_RESTART {
		t.Error("commands are mixed up")
	}
}

const mountInfo = `22 1 254:0 / / rw,noatime - ext4 /dev/vda rw,discard
23 22 0:5 / /dev rw,nosuid - devtmpfs devtmpfs rw
24 22 254:16 / /home/ubuntu rw,noatime shared:2 - ext4 /dev/vdb rw
25 22 254:32 / /mnt/a\040b\134c ro - ext4 /dev/vdc ro
26 22 254:0 /var /srv ro,noatime - ext4 /dev/vda rw,discard
broken line
27 22 0:30 / /tmp rw - tmpfs tmpfs
`

func TestParseMounts(t *testing.T) {
	want := []mount{{"/", true}, {"/home/ubuntu", true}, {`/mnt/a b\c`, false}, {"/srv", true}}
	if got := parseMounts([]byte(mountInfo)); !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestUnescapeMount(t *testing.T) {
	for in, want := range map[string]string{
		"/a": "/a", `/a\040b`: "/a b", `\011\012\134\043`: "\t\n\\#", `/a\04`: `/a\04`, `/a\999`: `/a\999`, `\`: `\`, `/x\777`: `/x\777`,
	} {
		if got := unescapeMount(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func FuzzMounts(f *testing.F) {
	f.Add([]byte(mountInfo))
	f.Fuzz(func(t *testing.T, b []byte) { parseMounts(b) })
}

func TestParseMembers(t *testing.T) {
	if got := parseMembers([]byte("0\n1\n12\nx\n-5\n 34 \n99999999999\n56"), 10); !slices.Equal(got, []int{12, 34, 56}) {
		t.Errorf("%v", got) // never 1, and never what kill(2) takes for many processes
	}
	if got := parseMembers([]byte("2\n3\n4\n"), 2); len(got) != 2 {
		t.Errorf("%v", got)
	}
}

func TestParsePopulated(t *testing.T) {
	for in, want := range map[string]bool{"populated 1\nfrozen 0\n": true, "frozen 0\npopulated 1": true, "populated 0\n": false, "": false} {
		if parsePopulated([]byte(in)) != want {
			t.Errorf("%q: not %v", in, want)
		}
	}
}

// session starts a shell that ends on SIGHUP only, and puts it into a directory like a control group's.
func session(t *testing.T, group string) (ended <-chan error) {
	t.Helper()
	cmd := exec.Command("sh", "-c", `trap "" TERM; trap "exit 7" HUP; echo ready; while :; do sleep 0.05; done`)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatal(line, err)
	}
	below := filepath.Join(group, "below")
	if err := os.MkdirAll(below, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(below, "cgroup.procs"), fmt.Appendln(nil, cmd.Process.Pid), 0o644); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	return done
}

func TestGroupSignals(t *testing.T) {
	dir := t.TempDir()
	ended := session(t, dir)
	g := Group(dir)
	if pids, err := g.members(); err != nil || len(pids) != 1 {
		t.Fatal(pids, err)
	}
	if err := g.signal(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the member ended with %v", err)
	}
	if err := g.signal(unix.SIGKILL); err != nil { // it is gone by now
		t.Error(err)
	}
}

func TestGroupThatIsNotThere(t *testing.T) {
	g := Group(filepath.Join(t.TempDir(), "no"))
	if err := g.signal(unix.SIGTERM); err != nil {
		t.Error(err)
	}
	if err := g.kill(); err != nil {
		t.Error(err)
	}
	if !g.waitEmpty(time.Hour) {
		t.Error("a group that is not there has processes")
	}
}

// machine is what a shutdown acts on.
type machine struct {
	mu     sync.Mutex
	init   bool
	asked  []Kind
	forced chan Kind
	log    []string
}

func (m *machine) power(g Group, ask func(Kind) error) *Power {
	return &Power{
		Sessions: g,
		Init:     func() bool { m.mu.Lock(); defer m.mu.Unlock(); return m.init },
		Ask: func(k Kind) error {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.asked = append(m.asked, k)
			return ask(k)
		},
		Force: func(k Kind) error { m.forced <- k; return nil },
		Log:   func(s string) { m.mu.Lock(); defer m.mu.Unlock(); m.log = append(m.log, s) },
	}
}

func TestPowerEndsSessionsAndAsksInit(t *testing.T) {
	dir := t.TempDir()
	ended := session(t, dir)
	m := &machine{init: true, forced: make(chan Kind, 1)}
	asked := make(chan Kind, 100)
	p := m.power(Group(dir), func(k Kind) error { asked <- k; return nil })
	p.End(Reboot, time.Minute)
	p.End(PowerOff, time.Minute) // too late: the first decides
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("the session ended with %v, not by SIGHUP", err)
	}
	if k := <-asked; k != Reboot {
		t.Errorf("init was asked for %v", k)
	}
	m.mu.Lock()
	m.init = false // the end of init is the end of waiting
	m.mu.Unlock()
	if k := <-m.forced; k != Reboot {
		t.Errorf("forced: %v", k)
	}
	for len(asked) > 0 {
		if k := <-asked; k != Reboot {
			t.Errorf("init was asked for %v as well", k)
		}
	}
}

func TestPowerWithoutInit(t *testing.T) {
	m := &machine{forced: make(chan Kind, 1)}
	m.power(Group(filepath.Join(t.TempDir(), "no")), nil).End(PowerOff, time.Hour)
	if k := <-m.forced; k != PowerOff || len(m.asked) != 0 {
		t.Errorf("forced %v, asked %v", k, m.asked)
	}
}

func TestPowerForcesAfterGrace(t *testing.T) {
	m := &machine{init: true, forced: make(chan Kind, 1)}
	p := m.power(Group(filepath.Join(t.TempDir(), "no")), func(Kind) error { return unix.EPERM })
	p.End(PowerOff, time.Millisecond)
	if k := <-m.forced; k != PowerOff {
		t.Errorf("forced %v", k)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.ContainsFunc(m.log, func(s string) bool { return strings.Contains(s, "ask init") }) {
		t.Errorf("nothing was said of the refusal: %q", m.log)
	}
}
