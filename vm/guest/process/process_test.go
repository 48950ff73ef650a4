//go:build linux

package process

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"bromure.io/tui/vm/guest"
	"bromure.io/tui/vm/guest/login"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func me() login.Account {
	return login.Account{Name: "me", UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), Home: "/", Shell: "/bin/sh"}
}

func script(line string) Spec {
	return Spec{Account: me(), Path: "/bin/sh", Argv: []string{"sh", "-c", line}, Env: []string{"PATH=/usr/bin:/bin"}}
}

func output(t *testing.T, sp Spec) string {
	t.Helper()
	p, err := Start(sp)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var b []byte
	if sp.TTY {
		b, _ = io.ReadAll(Terminal{p})
	} else {
		p.Stdin.Close()
		b, _ = io.ReadAll(p.Stdout)
	}
	if exit := p.Wait(); exit.Code != 0 {
		t.Errorf("exit %+v after %q", exit, b)
	}
	return string(b)
}

// Root drops every right that the user does not have.
func TestAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	dir := t.TempDir()
	closed := filepath.Join(dir, "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	sp := script("id -u; id -g; id -G; grep -E '^Cap(Prm|Eff)' /proc/self/status | tr -s '\\t' ' '; umask; cat /proc/self/oom_score_adj; pwd; echo x >/dev/stdout; echo y >/dev/stderr && ulimit -Hn")
	sp.Account = login.Account{Name: "nobody", UID: 65534, GID: 65534, Groups: []uint32{65534, 27, 999}, Home: closed}
	got := strings.Fields(output(t, sp))
	want := strings.Fields("65534 65534 65534 27 999 CapPrm: 0000000000000000 CapEff: 0000000000000000 0022 0 / x")
	if len(got) < len(want) || strings.Join(got[:len(want)], " ") != strings.Join(want, " ") {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if n, err := strconv.Atoi(got[len(got)-1]); got[len(got)-1] != "unlimited" && (err != nil || n < 4096) {
		t.Errorf("hard limit of files: %q", got[len(got)-1])
	}

	sp = script("stat -c '%u %g %a' $(tty); echo x >/dev/tty")
	sp.Account, sp.TTY, sp.TTYGroup = login.Account{Name: "nobody", UID: 65534, GID: 65534, Home: "/"}, true, 5
	if got := output(t, sp); got != "65534 5 620\r\nx\r\n" {
		t.Errorf("on a terminal: %q", got)
	}
}

func TestNoDescriptorLeaks(t *testing.T) {
	// One that whoever started us left open, without close-on-exec.
	if fd, err := unix.Open("/dev/null", unix.O_RDONLY, 0); err != nil {
		t.Fatal(err)
	} else {
		defer unix.Close(fd)
	}
	for _, tty := range []bool{false, true} {
		sp := script("echo /proc/self/fd/*")
		sp.TTY = tty
		// The shell expands the pattern with a descriptor of its own.
		if n := len(strings.Fields(output(t, sp))); n > 4 {
			t.Errorf("tty %v: the program has %d descriptors", tty, n)
		}
	}
}

func TestModes(t *testing.T) {
	sp := script("stty -a")
	sp.TTY, sp.Size = true, guest.Size{Cols: 77, Rows: 11}
	// VINTR ^A, VERASE off, ECHO off, ONLCR off, IUTF8 off, an unknown one, a speed, the end, and what comes after it.
	sp.Modes = ParseModes("\x01\x00\x00\x00\x01\x03\x00\x00\x00\xff\x35\x00\x00\x00\x00\x48\x00\x00\x00\x00\x2a\x00\x00\x00\x00\x78\x00\x00\x00\x01\x81\x00\x00\x96\x00\x00\x32\x00\x00\x00\x00")
	got := output(t, sp)
	for _, want := range []string{"rows 11; columns 77;", "intr = ^A;", "erase = <undef>;", "-echo ", "-onlcr", "-iutf8", "isig"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	if len(sp.Modes) != 7 {
		t.Errorf("modes %v", sp.Modes)
	}
	sp.Modes = nil
	if got := output(t, sp); !strings.Contains(got, " iutf8") || strings.Contains(got, "-echo ") {
		t.Errorf("the default: %s", got)
	}
}

func TestSignalGoesToTheForeground(t *testing.T) {
	// An interactive shell gives each job a group of its own.
	sp := script("exec sh -i")
	sp.TTY = true
	p, err := Start(sp)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	term := Terminal{p}
	if _, err := io.WriteString(term, "sh -c 'echo rea''dy; exec sleep 1000'; echo code-$?; exit 0\n"); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	buf := make([]byte, 1024)
	for !strings.Contains(got.String(), "ready\r\n") {
		n, err := term.Read(buf)
		if err != nil {
			t.Fatalf("%v after %q", err, got.String())
		}
		got.Write(buf[:n])
	}
	if err := p.Signal(int(unix.SIGTERM)); err != nil {
		t.Fatal(err)
	}
	b, _ := io.ReadAll(term)
	if !strings.Contains(string(b), "code-143") || p.Wait().Code != 0 {
		t.Errorf("%q, %+v", b, p.Wait())
	}
	if err := p.Signal(int(unix.SIGTERM)); err == nil {
		t.Error("a dead program was signalled")
	}
}

func TestHangupReachesJobs(t *testing.T) {
	// A job of an interactive shell is in another process group of the same session.
	sp := script("exec sh -i 2>&1")
	sp.TTY = true
	p, err := Start(sp)
	if err != nil {
		t.Fatal(err)
	}
	term := Terminal{p}
	if _, err := io.WriteString(term, "sh -c 'trap \"\" TERM; sleep 1000' & echo j''ob=$!\n"); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	buf := make([]byte, 1024)
	for !strings.Contains(got.String(), "job=") || !strings.HasSuffix(got.String(), "\n") && !strings.HasSuffix(got.String(), "# ") && !strings.HasSuffix(got.String(), "$ ") {
		n, err := term.Read(buf)
		if err != nil {
			t.Fatalf("%v after %q", err, got.String())
		}
		got.Write(buf[:n])
	}
	if n := len(session(p.PID())); n < 2 {
		t.Fatalf("%d members of the session", n)
	}
	p.Close()
	p.Hangup(HangupGrace)
	if left := session(p.PID()); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if exit := p.Wait(); exit.Code == 0 {
		t.Errorf("exit %+v", exit)
	}
}

func TestHangupKillsWhatStays(t *testing.T) {
	p, err := Start(script(`trap "" HUP; (trap "echo no" HUP; while :; do sleep 0.1; done) & echo ready; while :; do sleep 0.1; done`))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := io.ReadFull(p.Stdout, make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	p.Hangup(300 * time.Millisecond)
	if d := time.Since(begin); d < 300*time.Millisecond {
		t.Errorf("it took only %v", d)
	}
	if exit := p.Wait(); exit.Signal != "KILL" {
		t.Errorf("exit %+v", exit)
	}
}

func TestStartErrors(t *testing.T) {
	tests := []struct {
		change func(*Spec)
		code   int
		is     error
	}{
		{func(s *Spec) { s.Path = "/no/such" }, guest.NotFound, unix.ENOENT},
		{func(s *Spec) { s.Path = "/etc/passwd" }, guest.CannotRun, unix.EACCES},
		{func(s *Spec) { s.Path = "/" }, guest.CannotRun, unix.EACCES},
		{func(s *Spec) { s.Dir = "/no/such" }, guest.CannotRun, unix.ENOENT},
		{func(s *Spec) { s.Dir = "/etc/passwd" }, guest.CannotRun, unix.ENOTDIR},
		{func(s *Spec) { s.Argv = []string{"sh", strings.Repeat("x", 200<<10)} }, guest.CannotRun, unix.E2BIG},
	}
	for i, tt := range tests {
		for _, tty := range []bool{false, true} {
			sp := script("true")
			sp.TTY = tty
			tt.change(&sp)
			p, err := Start(sp)
			if e, ok := errors.AsType[*StartError](err); !ok || e.Code != tt.code || !errors.Is(err, tt.is) {
				t.Errorf("%d: %v", i, err)
			}
			if p != nil {
				t.Errorf("%d: it runs", i)
			}
		}
	}
}

func TestParseStat(t *testing.T) {
	for _, tt := range []struct {
		stat  string
		state byte
		sid   int
		ok    bool
	}{
		{"12 (sh) S 1 12 7 34816", 'S', 7, true},
		{"12 (a) Z 1 2 3) R 4 5 6 7", 'R', 6, true},
		{"12 (sh) S 1 12", 0, 0, false},
		{"", 0, 0, false},
		{"12 sh S 1 12 7", 0, 0, false},
	} {
		state, sid, err := parseStat([]byte(tt.stat))
		if (err == nil) != tt.ok || tt.ok && (state != tt.state || sid != tt.sid) {
			t.Errorf("%q: %c %d %v", tt.stat, state, sid, err)
		}
	}
}

func FuzzModes(f *testing.F) {
	f.Add("\x01\x00\x00\x00\x03\x35\x00\x00\x00\x01\x00")
	f.Fuzz(func(t *testing.T, s string) {
		m := ParseModes(s)
		if len(m) > 160 || 5*len(m) > len(s) {
			t.Fatalf("%d modes from %d bytes", len(m), len(s))
		}
		var tio unix.Termios
		m.set(&tio)
	})
}
