//go:build linux

package sshd

import (
	"encoding/json"
	"net"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"bromure.io/tui/vm/guest"
)

// FuzzPayloads feeds one payload to every parser of what a client sends. What a parser accepts keeps its limits.
func FuzzPayloads(f *testing.F) {
	f.Add(ssh.Marshal(struct {
		Term       string
		C, R, W, H uint32
		Modes      string
	}{"xterm", 80, 24, 0, 0, "\x35\x00\x00\x00\x01\x00"}))
	f.Add(ssh.Marshal(struct{ C, R, W, H uint32 }{1 << 31, 24, 0, 0}))
	f.Add(ssh.Marshal(struct{ A, B string }{"LC_ALL", "C"}))
	f.Add(ssh.Marshal(struct {
		H string
		P uint32
		F string
		Q uint32
	}{"127.0.0.1", 80, "", 0}))
	f.Add([]byte(`{"argv":["a"],"env":{"A":"b"},"dir":"/","tty":true,"size":{"cols":-1,"rows":9999999},"term":"../x"}`))
	f.Add([]byte(`{"name":"main","size":{"cols":80,"rows":24}}`))
	f.Add([]byte(`{"method":"hello","params":{"a":[1,2,3]}}`))
	inRange := func(t *testing.T, s guest.Size) {
		if s != s.Clamp() {
			t.Errorf("size %v", s)
		}
	}
	local := func() ([]net.Addr, error) { return nil, nil }
	f.Fuzz(func(t *testing.T, b []byte) {
		if p, err := parsePTY(b); err == nil {
			inRange(t, p.size)
			if p.term == "" || strings.ContainsAny(p.term, "/\x00") {
				t.Errorf("term %q", p.term)
			}
		}
		if s, err := parseWindow(b); err == nil {
			inRange(t, s)
		}
		if name, value, ok := parseEnv(b); ok && strings.ContainsAny(name+value, "\x00") {
			t.Errorf("env %q=%q", name, value)
		}
		if e, err := parseExec(b); err == nil {
			inRange(t, e.Size)
			if e.Check() != nil || e.Term == "" {
				t.Errorf("exec %+v", e)
			}
		}
		if c, err := parseConsole(b); err == nil {
			inRange(t, c.Size)
			if c.Name == "" || strings.ContainsAny(c.Name, "/\x00\x1b\n") {
				t.Errorf("console %+v", c)
			}
		}
		if r, err := parseCall(b); err == nil && (r.Method == "" || len(r.Method) > 64) {
			t.Errorf("call %+v", r)
		}
		if a, err := parseForward(b, local); err == nil {
			for _, ap := range a {
				if !ap.Addr().IsLoopback() || ap.Port() == 0 {
					t.Errorf("forward to %v", ap)
				}
			}
		}
		_, _ = parseString(b)
	})
}

func TestReplyIsBounded(t *testing.T) {
	for _, result := range []any{strings.Repeat("x", guest.MaxCall), make(chan int), func() {}, "ok"} {
		b := encodeReply(result, nil)
		var r guest.CallReply
		if err := json.Unmarshal(b, &r); err != nil || len(b) > guest.MaxCall || (r.Error == "") != (result == "ok") {
			t.Errorf("%d bytes, %v", len(b), err)
		}
	}
}
