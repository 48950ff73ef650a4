package link_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/crypto/ssh"

	"bromure.io/tui/vm/guest"
	"bromure.io/tui/vm/guest/sshd"
	"bromure.io/tui/vm/link"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testGuest is a server as a guest has it, with programs of the current user.
type testGuest struct {
	addr string
	keys link.Keys
	home string
	srv  *sshd.Server
}

func (g *testGuest) dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "tcp", g.addr)
}

// etc makes a directory like /etc in which the current user is called ubuntu.
func etc(t testing.TB, home string) string {
	t.Helper()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("passwd", fmt.Sprintf("root:x:0:0:root:/root:/bin/bash\nubuntu:x:%s:%s::%s:/bin/bash\n", me.Uid, me.Gid, home))
	write("group", fmt.Sprintf("tty:x:5:\nubuntu:x:%s:\n", me.Gid))
	write("environment", "PATH=\"/usr/local/bin:/usr/bin:/bin\"\nFROM_ETC='yes'\n")
	return dir
}

func serve(t testing.TB, change ...func(*sshd.Config)) *testGuest {
	t.Helper()
	keys, err := link.NewKeys()
	if err != nil {
		t.Fatal(err)
	}
	host, err := ssh.ParsePrivateKey([]byte(keys.HostKey()))
	if err != nil {
		t.Fatal(err)
	}
	client, _, _, _, err := ssh.ParseAuthorizedKey([]byte(keys.Authorized()))
	if err != nil {
		t.Fatal(err)
	}
	g := &testGuest{keys: keys, home: t.TempDir()}
	cfg := sshd.Config{HostKey: host, ClientKey: client, Etc: etc(t, g.home), Env: map[string]string{"BOOT": "1"}}
	for _, f := range change {
		f(&cfg)
	}
	if g.srv, err = sshd.New(cfg); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g.addr = ln.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- g.srv.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("serve: %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Error("the server does not end")
		}
	})
	return g
}

func connect(t testing.TB, g *testGuest) *link.Link {
	t.Helper()
	l, err := link.Dial(t.Context(), g.dial, g.keys, guest.User)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// run runs a program to its end.
func run(t testing.TB, l *link.Link, e guest.Exec, input string) (out, errOut string, exit guest.Exit, err error) {
	t.Helper()
	s, err := l.Exec(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = io.WriteString(s.Stdin, input)
		_ = s.Stdin.Close()
	}()
	var stderr []byte
	read := make(chan struct{})
	go func() {
		defer close(read)
		stderr, _ = io.ReadAll(s.Stderr)
	}()
	stdout, _ := io.ReadAll(s.Stdout)
	<-read
	exit, err = s.Wait()
	return string(stdout), string(stderr), exit, err
}

func sh(line string) guest.Exec { return guest.Exec{Argv: []string{"/bin/sh", "-c", line}} }

func TestExec(t *testing.T) {
	g := serve(t)
	l := connect(t, g)
	if err := os.WriteFile(filepath.Join(g.home, "plain"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(g.home, "noformat"), []byte("not a program"), 0o755); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name        string
		exec        guest.Exec
		in          string
		out, errOut string
		code        int
		signal      string
		reason      string
	}{
		{name: "output", exec: guest.Exec{Argv: []string{"echo", "a b", "$HOME"}}, out: "a b $HOME\n"},
		{name: "code", exec: sh("exit 42"), code: 42},
		{name: "stderr apart", exec: sh("echo out; echo err >&2"), out: "out\n", errOut: "err\n"},
		{name: "input", exec: guest.Exec{Argv: []string{"cat"}}, in: "hello", out: "hello"},
		{name: "signal", exec: sh("kill -TERM $$"), code: 143, signal: "TERM"},
		{name: "signal that RFC 4254 does not list", exec: sh("kill -TRAP $$"), code: 133, signal: "TRAP"},
		{name: "not found", exec: guest.Exec{Argv: []string{"no-such-program"}}, code: 127, reason: "no such program"},
		{name: "no such file", exec: guest.Exec{Argv: []string{"/no/such"}}, code: 127, reason: "no such file"},
		{name: "not executable", exec: guest.Exec{Argv: []string{"./plain"}}, code: 126, reason: "permission denied"},
		{name: "not a program", exec: guest.Exec{Argv: []string{"./noformat"}}, code: 126, reason: "exec format error"},
		{name: "no such directory", exec: guest.Exec{Argv: []string{"true"}, Dir: "/no/such"}, code: 126, reason: `directory "/no/such"`},
		{name: "not a directory", exec: guest.Exec{Argv: []string{"true"}, Dir: "/etc/passwd"}, code: 126, reason: "not a directory"},
		{name: "directory", exec: guest.Exec{Argv: []string{"pwd"}, Dir: "/usr"}, out: "/usr\n"},
		{name: "home", exec: guest.Exec{Argv: []string{"pwd"}}, out: g.home + "\n"},
		{name: "environment", exec: guest.Exec{Argv: []string{"/bin/sh", "-c", "echo $FROM_ETC $BOOT $MINE $USER $LOGNAME $SHELL $LANG ${TERM-none}"}, Env: map[string]string{"MINE": "m"}},
			out: "yes 1 m ubuntu ubuntu /bin/bash C.UTF-8 none\n"},
		{name: "shell", exec: guest.Exec{Argv: []string{"echo $0 $((1+1))"}, Shell: true}, out: "bash 2\n"},
		{name: "own session", exec: sh(`test "$(ps -o sid= -p $$ | tr -d ' ')" = $$`)},
		{name: "login shell", exec: guest.Exec{Shell: true}, in: "shopt -q login_shell && echo login $0; exit 3", out: "login -bash\n", code: 3},
		{name: "umask", exec: sh("umask"), out: "0022\n"},
		{name: "standard output by name", exec: sh("echo a > /dev/stdout; echo b > /dev/stderr"), out: "a\n", errOut: "b\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name == "own session" {
				if _, err := os.Stat("/bin/ps"); err != nil {
					t.Skip("needs ps")
				}
			}
			out, errOut, exit, err := run(t, l, tt.exec, tt.in)
			if tt.reason != "" {
				if e, ok := errors.AsType[*link.StartError](err); !ok || !strings.Contains(e.Reason, tt.reason) || e.Code != tt.code {
					t.Errorf("error %v, want a start error with %q", err, tt.reason)
				}
			} else if err != nil {
				t.Errorf("error %v", err)
			}
			if out != tt.out || errOut != tt.errOut {
				t.Errorf("output %q and %q, want %q and %q", out, errOut, tt.out, tt.errOut)
			}
			if want := (guest.Exit{Code: tt.code, Signal: tt.signal}); exit != want {
				t.Errorf("exit %+v, want %+v", exit, want)
			}
		})
	}
}

func TestExecRefusedHere(t *testing.T) {
	l := connect(t, serve(t))
	big := make([]string, 3000)
	for i := range big {
		big[i] = strings.Repeat("x", 100)
	}
	for name, e := range map[string]guest.Exec{
		"nothing":     {},
		"empty":       {Argv: []string{""}},
		"nul":         {Argv: []string{"a\x00b"}},
		"environment": {Argv: []string{"true"}, Env: map[string]string{"A=B": "c"}},
		"two lines":   {Argv: []string{"a", "b"}, Shell: true},
		"too large":   {Argv: big},
	} {
		if s, err := l.Exec(t.Context(), e); err == nil {
			s.Close()
			t.Errorf("%s: started", name)
		}
	}
	if _, _, exit, err := run(t, l, sh("exit 7"), ""); err != nil || exit.Code != 7 {
		t.Errorf("afterwards: %+v, %v", exit, err)
	}
}

func TestLargeStreams(t *testing.T) {
	l := connect(t, serve(t))
	data := make([]byte, 10<<20)
	for i := range data {
		data[i] = byte(i * 2654435761 >> 13)
	}
	s, err := l.Exec(t.Context(), guest.Exec{Argv: []string{"cat"}})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = s.Stdin.Write(data)
		_ = s.Stdin.Close()
	}()
	got, err := io.ReadAll(s.Stdout)
	if err != nil || sha256.Sum256(got) != sha256.Sum256(data) {
		t.Errorf("%d of %d bytes came back, %v", len(got), len(data), err)
	}
	if exit, err := s.Wait(); err != nil || exit.Code != 0 {
		t.Errorf("exit %+v, %v", exit, err)
	}
}

// A program that prints without end is held by who reads, not buffered, and it ends when the session does.
func TestBackPressureAndClose(t *testing.T) {
	g := serve(t)
	l := connect(t, g)
	s, err := l.Exec(t.Context(), sh("echo $$; exec cat /dev/zero"))
	if err != nil {
		t.Fatal(err)
	}
	pid := readPID(t, s.Stdout)
	s.Close()
	waitGone(t, pid)
	if _, err := s.Wait(); !errors.Is(err, link.ErrClosed) {
		t.Errorf("wait: %v", err)
	}
}

// The client vanishes without a word; what it ran ends, also where it does not want to.
func TestVanishedClientEndsPrograms(t *testing.T) {
	g := serve(t)
	l := connect(t, g)
	s, err := l.Exec(t.Context(), sh("nohup sleep 1000 >/dev/null 2>&1 & echo $!; sleep 1000 & echo $!; echo $$; wait; wait"))
	if err != nil {
		t.Fatal(err)
	}
	spared, child, leader := readPID(t, s.Stdout), readPID(t, s.Stdout), readPID(t, s.Stdout)
	t.Cleanup(func() { _ = syscall.Kill(spared, syscall.SIGKILL) })
	l.Close()
	waitGone(t, child)
	waitGone(t, leader)
	if err := syscall.Kill(spared, 0); err != nil {
		t.Errorf("what nohup started is gone too: %v", err)
	}
}

func TestStubbornProgramIsKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("takes the grace of a hangup, 5 s")
	}
	t.Parallel()
	g := serve(t)
	l := connect(t, g)
	s, err := l.Exec(t.Context(), sh(`trap "" HUP TERM; echo $$; while :; do sleep 0.2; done`))
	if err != nil {
		t.Fatal(err)
	}
	pid := readPID(t, s.Stdout)
	s.Close()
	waitGone(t, pid)
}

// What a program leaves behind may hold its pipes; the exit does not wait for it.
func TestLeftoversDoNotHang(t *testing.T) {
	l := connect(t, serve(t))
	start := time.Now()
	out, _, exit, err := run(t, l, sh("echo begin; sleep 1000 & echo $!; exit 5"), "")
	if err != nil || exit.Code != 5 || !strings.HasPrefix(out, "begin\n") {
		t.Fatalf("%q, %+v, %v", out, exit, err)
	}
	pid, err := strconv.Atoi(strings.Fields(out)[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("the leftover did not live on: %v", err)
	}
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("took %v", d)
	}
}

// A reader that comes late still gets everything that was printed before the end, leftovers or not: here the
// channel's window (2 MiB) is full and the rest is in the pipe when the program ends.
func TestOutputBeforeExitIsComplete(t *testing.T) {
	const size = 2<<20 + 50000
	l := connect(t, serve(t))
	s, err := l.Exec(t.Context(), sh(fmt.Sprintf("sleep 1000 & echo $! >&2; head -c %d /dev/zero; exit 6", size)))
	if err != nil {
		t.Fatal(err)
	}
	leftover := readPID(t, s.Stderr)
	t.Cleanup(func() { _ = syscall.Kill(leftover, syscall.SIGKILL) })
	time.Sleep(400 * time.Millisecond) // not to wait for something, but to be later than the server's patience of 250 ms
	n, err := io.Copy(io.Discard, s.Stdout)
	if err != nil || n != size {
		t.Errorf("%d of %d bytes, %v", n, size, err)
	}
	if exit, err := s.Wait(); err != nil || exit.Code != 6 {
		t.Errorf("exit %+v, %v", exit, err)
	}
}

func TestSignals(t *testing.T) {
	l := connect(t, serve(t))
	s, err := l.Exec(t.Context(), sh(`trap "echo caught; exit 9" USR1; echo ready; while :; do sleep 0.05; done`))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	expectLine(t, s.Stdout, "ready")
	if err := s.Signal("USR1"); err != nil {
		t.Fatal(err)
	}
	expectLine(t, s.Stdout, "caught")
	if exit, err := s.Wait(); err != nil || exit.Code != 9 {
		t.Errorf("exit %+v, %v", exit, err)
	}
	if err := s.Signal("NOSUCH"); err == nil {
		t.Error("a signal without a number was sent")
	}
}

func TestTerminal(t *testing.T) {
	l := connect(t, serve(t))
	s, err := l.Exec(t.Context(), guest.Exec{
		Argv: []string{"/bin/sh", "-c", `trap "stty size" WINCH; stty size; tty >/dev/null && echo $TERM >&2; while :; do sleep 0.05; done`},
		TTY:  true, Size: guest.Size{Cols: 91, Rows: 33}, Term: "screen",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	expectLine(t, s.Stdout, "33 91")
	expectLine(t, s.Stdout, "screen")
	if err := s.Resize(guest.Size{Cols: 120, Rows: 40}); err != nil {
		t.Fatal(err)
	}
	expectLine(t, s.Stdout, "40 120")
	// Control-C is a byte that the terminal makes a signal of.
	if _, err := s.Stdin.Write([]byte{3}); err != nil {
		t.Fatal(err)
	}
	if exit, err := s.Wait(); err != nil || exit.Signal != "INT" {
		t.Errorf("exit %+v, %v", exit, err)
	}
}

// The end of input reaches a program on a terminal as the key for it.
func TestTerminalEndOfInput(t *testing.T) {
	l := connect(t, serve(t))
	out, _, exit, err := run(t, l, guest.Exec{Argv: []string{"/bin/sh", "-c", "stty -echo; echo ready; cat"}, TTY: true}, "")
	if err != nil || exit.Code != 0 || !strings.Contains(out, "ready") {
		t.Errorf("%q, %+v, %v", out, exit, err)
	}
}

// The program has closed its input: who writes is told, and the program goes on.
func TestInputClosedByProgram(t *testing.T) {
	l := connect(t, serve(t))
	s, err := l.Exec(t.Context(), sh("exec <&-; echo closed; read x </dev/zero & sleep 1000"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	expectLine(t, s.Stdout, "closed")
	for {
		if _, err := s.Stdin.Write([]byte("x")); err != nil {
			if !errors.Is(err, link.ErrInputClosed) {
				t.Error(err)
			}
			return
		}
	}
}

func TestCalls(t *testing.T) {
	type params struct{ N int }
	release := make(chan struct{})
	g := serve(t, func(c *sshd.Config) {
		c.Calls = func(ctx context.Context, m guest.Method, raw json.RawMessage) (any, error) {
			switch m {
			case "double":
				var p params
				if err := json.Unmarshal(raw, &p); err != nil {
					return nil, err
				}
				return 2 * p.N, nil
			case "fail":
				return nil, errors.New("no \x1b[31mway")
			case "huge":
				return strings.Repeat("x", guest.MaxCall), nil
			case "panic":
				panic("boo")
			case "wait":
				<-ctx.Done()
				close(release)
				return nil, ctx.Err()
			}
			return nil, errors.New("unknown")
		}
	})
	l := connect(t, g)
	ctx := t.Context()
	var n int
	if err := l.Call(ctx, "double", params{21}, &n); err != nil || n != 42 {
		t.Errorf("double: %d, %v", n, err)
	}
	err := l.Call(ctx, "fail", nil, nil)
	if e, ok := errors.AsType[*link.CallError](err); !ok || e.Msg != "no ?[31mway" {
		t.Errorf("fail: %v", err)
	}
	for _, m := range []guest.Method{"huge", "panic", "other", ""} {
		if err := l.Call(ctx, m, nil, nil); err == nil {
			t.Errorf("%q worked", m)
		}
	}
	if err := l.Call(ctx, "double", strings.Repeat("x", guest.MaxRequest), nil); err == nil {
		t.Error("a request that is too large was sent")
	}
	short, cancel := context.WithCancel(ctx)
	time.AfterFunc(20*time.Millisecond, cancel)
	if err := l.Call(short, "wait", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("wait: %v", err)
	}
	<-release // the guest hears of it
	if list, err := l.Consoles(ctx); err != nil || len(list) != 0 {
		t.Errorf("consoles: %v, %v", list, err)
	}
}

func TestForward(t *testing.T) {
	l := connect(t, serve(t))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				b, _ := io.ReadAll(c) // until the client has ended its side
				_, _ = c.Write(bytes.ToUpper(b))
				c.Close()
			}()
		}
	}()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	for _, host := range []string{"127.0.0.1", "localhost"} {
		c, err := l.Forward(t.Context(), net.JoinHostPort(host, port))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, "hello"); err != nil {
			t.Fatal(err)
		}
		if err := c.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(c); err != nil || string(b) != "HELLO" {
			t.Errorf("%s: %q, %v", host, b, err)
		}
		c.Close()
		if _, err := c.Read(make([]byte, 1)); err == nil {
			t.Error("read after close")
		}
	}
	for _, addr := range []string{"192.0.2.1:80", "example.org:80", "127.0.0.1:1", "127.0.0.1:0", "127.0.0.1", "127.0.0.1:70000"} {
		if c, err := l.Forward(t.Context(), addr); err == nil {
			c.Close()
			t.Errorf("%s could be reached", addr)
		}
	}
}

func readPID(t *testing.T, r io.Reader) int {
	t.Helper()
	pid, err := strconv.Atoi(readLine(t, r))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

func readLine(t *testing.T, r io.Reader) string {
	t.Helper()
	var line []byte
	for b := make([]byte, 1); ; {
		if _, err := io.ReadFull(r, b); err != nil {
			t.Fatalf("after %q: %v", line, err)
		}
		if b[0] == '\n' {
			return strings.TrimSuffix(string(line), "\r")
		}
		line = append(line, b[0])
	}
}

func expectLine(t *testing.T, r io.Reader, want string) {
	t.Helper()
	if got := readLine(t, r); got != want {
		t.Fatalf("line %q, want %q", got, want)
	}
}

// waitGone waits until a process does not exist or is a zombie that nobody of ours has to reap.
func waitGone(t *testing.T, pid int) {
	t.Helper()
	deadline := time.Now().Add(15 * time.Second)
	for time.Now().Before(deadline) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || bytes.Contains(b, []byte(") Z ")) {
			return
		}
		time.Sleep(5 * time.Millisecond) // the kernel tells nobody but the parent
	}
	t.Fatalf("process %d still runs", pid)
}

func BenchmarkExecTrue(b *testing.B) {
	l := connect(b, serve(b))
	for b.Loop() {
		s, err := l.Exec(b.Context(), guest.Exec{Argv: []string{"/bin/true"}})
		if err != nil {
			b.Fatal(err)
		}
		if exit, err := s.Wait(); err != nil || exit.Code != 0 {
			b.Fatal(exit, err)
		}
	}
}

func BenchmarkThroughput(b *testing.B) {
	l := connect(b, serve(b))
	const size = 8 << 20
	b.SetBytes(size)
	for b.Loop() {
		s, err := l.Exec(b.Context(), guest.Exec{Argv: []string{"head", "-c", strconv.Itoa(size), "/dev/zero"}})
		if err != nil {
			b.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, s.Stdout); err != nil || n != size {
			b.Fatal(n, err)
		}
	}
}
