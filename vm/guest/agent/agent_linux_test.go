package agent

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bromure.io/tui/vm/guest"
	"bromure.io/tui/vm/guest/sysinfo"
)

func TestTakeOver(t *testing.T) {
	for _, c := range []struct {
		before   int
		lived    time.Duration
		failures int
		delay    time.Duration
	}{
		{0, time.Hour, 0, 0},
		{7, healthy, 0, 0},
		{0, time.Second, 1, 0}, // the first death may be chance
		{1, time.Second, 2, perFailure},
		{3, 0, 4, 3 * perFailure},
		{1000, 0, 1001, maxDelay},
	} {
		if f, d := takeOver(c.before, c.lived); f != c.failures || d != c.delay {
			t.Errorf("%d before, lived %v: %d, %v; want %d, %v", c.before, c.lived, f, d, c.failures, c.delay)
		}
	}
}

func TestSaysReady(t *testing.T) {
	for in, want := range map[string]bool{
		"READY=1": true, "STATUS=Startup finished in 2s.\nREADY=1\n": true, "READY=1\nSTATUS=x": true,
		"READY=10": false, "XREADY=1": false, "STATUS=READY=1": false, "STOPPING=1\n": false, "": false, "READY=0": false,
	} {
		if saysReady([]byte(in)) != want {
			t.Errorf("%q: not %v", in, want)
		}
	}
}

// TestOnlyInitIsBelieved: anybody can send to the socket.
func TestOnlyInitIsBelieved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	f, err := listenNotify(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c, err := net.Dial("unixgram", path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, text := range []string{"READY=1", "READY=1", "END"} {
		if _, err := c.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	me := int32(os.Getpid())
	read := func(init int32) string {
		t.Helper()
		text, from, err := receive(f)
		if err != nil || from != me {
			t.Fatalf("from %d, %v", from, err)
		}
		if ready := from == init && saysReady(text); ready != (init == me && string(text) == "READY=1") {
			t.Errorf("%q with init %d: %v", text, init, ready)
		}
		return string(text)
	}
	read(1)
	read(me)
	if got := read(me); got != "END" {
		t.Errorf("%q", got)
	}
}

func TestMemoryFile(t *testing.T) {
	want := guest.Boot{Version: 1, HostKey: "key", Env: map[string]string{"A": "b"}}
	f, err := memoryFile(want)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range 2 { // a server and its successor
		got, err := readBoot(f)
		if err != nil || got.HostKey != "key" || got.Env["A"] != "b" {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if _, err := f.WriteAt([]byte("x"), 0); err == nil {
		t.Error("it can be changed")
	}
}

func TestCalls(t *testing.T) {
	home := t.TempDir()
	forced := make(chan sysinfo.Kind, 1)
	s := &server{
		system: sysinfo.Reader{Root: home, Home: home},
		power: sysinfo.Power{
			Sessions: sysinfo.Group(filepath.Join(home, "no")),
			Init:     func() bool { return false },
			Force:    func(k sysinfo.Kind) error { forced <- k; return nil },
			Log:      func(string) {},
		},
	}
	call := func(m guest.Method, params string) (string, error) {
		v, err := s.call(t.Context(), m, json.RawMessage(params))
		b, e := json.Marshal(v)
		if e != nil {
			t.Fatal(e)
		}
		return string(b), err
	}
	for _, c := range []struct {
		method guest.Method
		params string
		want   string // in the result
	}{
		{guest.MethodHello, "", `"version":1`},
		{guest.MethodStats, "", `"cpus":`},
		{guest.MethodPorts, "", `[`},
		{guest.MethodSync, "", `null`},
	} {
		if got, err := call(c.method, c.params); err != nil || !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, %v", c.method, got, err)
		}
	}
	now, err := json.Marshal(guest.Clock{Time: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := call(guest.MethodClock, string(now)); err != nil || !strings.Contains(got, `"time"`) {
		t.Errorf("clock: %s, %v", got, err)
	}
	for _, c := range []struct {
		method guest.Method
		params string
	}{
		{"coffee", ""}, {"", ""}, {guest.MethodClock, `{"time":"soon"}`}, {guest.MethodClock, ""}, {guest.MethodPowerOff, `{"grace":"long"}`}, {guest.MethodReboot, `[`},
	} {
		if got, err := call(c.method, c.params); err == nil {
			t.Errorf("%s %s: %s", c.method, c.params, got)
		}
	}
	select {
	case k := <-forced:
		t.Fatalf("a call that was refused ended the system (%v)", k)
	default:
	}
	if _, err := call(guest.MethodReboot, `{"grace":1000000}`); err != nil {
		t.Error(err)
	}
	if k := <-forced; k != sysinfo.Reboot {
		t.Errorf("%v", k)
	}
}

// TestGroupsAreOurs: the groups are beside each other, below the root, where systemd does not look.
func TestGroupsAreOurs(t *testing.T) {
	if filepath.Dir(sysinfo.AgentGroup) != filepath.Dir(sysinfo.SessionGroup) || filepath.Dir(filepath.Dir(sysinfo.AgentGroup)) != sysinfo.CgroupRoot {
		t.Error(sysinfo.AgentGroup, sysinfo.SessionGroup)
	}
	if !strings.HasPrefix(name, "@") {
		t.Errorf("systemd-shutdown kills a process called %q", name)
	}
}

func FuzzSaysReady(f *testing.F) {
	f.Add([]byte("READY=1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if saysReady(b) && !bytes.Contains(b, []byte("READY=1")) {
			t.Errorf("%q", b)
		}
		sender(b)
	})
}

func TestSenderNeedsCredentials(t *testing.T) {
	if got := sender(nil); got != 0 {
		t.Error(got)
	}
	if got := sender(unix.UnixRights(0)); got != 0 {
		t.Errorf("a passed file is taken for credentials: %d", got)
	}
	if got := sender(unix.UnixCredentials(&unix.Ucred{Pid: 1})); got != 1 {
		t.Error(got)
	}
}
