package link_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"bromure.io/tui/vm/guest"
	"bromure.io/tui/vm/guest/sshd"
	"bromure.io/tui/vm/link"
)

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
		{name: "own session", exec: sh(`set -- $(cat /proc/$$/stat); test "$6" = $$`)},
		{name: "login shell", exec: guest.Exec{Shell: true}, in: "shopt -q login_shell && echo login $0; exit 3", out: "login -bash\n", code: 3},
		{name: "umask", exec: sh("umask"), out: "0022\n"},
		{name: "standard output by name", exec: sh("echo a > /dev/stdout; echo b > /dev/stderr"), out: "a\n", errOut: "b\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
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

func TestCiphers(t *testing.T) {
	g := serve(t)
	for emulated, want := range map[bool]string{false: ssh.CipherAES128GCM, true: ssh.CipherChaCha20Poly1305} {
		l, err := link.Dial(t.Context(), g.dial, g.keys, guest.User, link.Emulated(emulated))
		if err != nil {
			t.Fatal(err)
		}
		if a := link.Algorithms(l); a.Read.Cipher != want || a.Write.Cipher != want || a.KeyExchange != ssh.KeyExchangeCurve25519 {
			t.Errorf("emulated %v: %+v", emulated, a)
		}
		l.Close()
	}
}
