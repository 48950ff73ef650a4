//go:build linux

package sshd

import (
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"bromure.io/tui/vm/guest"
)

func TestTooManyConnections(t *testing.T) {
	s := start(t)
	var conns []net.Conn
	for range maxConns {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		// The server's greeting says that it took the connection.
		if _, err := c.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	if _, err := ssh.Dial("tcp", s.addr, s.config(guest.User, s.client)); err == nil {
		t.Error("one more was served")
	}
	conns[0].Close()
	for deadline := time.Now().Add(10 * time.Second); ; {
		c, err := ssh.Dial("tcp", s.addr, s.config(guest.User, s.client))
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestGarbageInsteadOfAHandshake(t *testing.T) {
	s := start(t)
	for _, b := range []string{
		"GET / HTTP/1.1\r\n\r\n",
		strings.Repeat("x", 1<<20),
		"SSH-2.0-x\r\n\xff\xff\xff\xff" + strings.Repeat("\x00", 100),
		"SSH-2.0-x\r\n\x00\x00\x00\x0c\x0a\x14" + strings.Repeat("\x41", 300),
		"SSH-1.5-old\r\n",
	} {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = c.Write([]byte(b))
		_ = c.(*net.TCPConn).CloseWrite()
		for buf := make([]byte, 4096); ; {
			if _, err := c.Read(buf); err != nil {
				if e, ok := err.(net.Error); ok && e.Timeout() {
					t.Errorf("%.20q: the server does not hang up", b)
				}
				break
			}
		}
		c.Close()
	}
	s.connect(t)
}

func TestRequestsThatAreRefused(t *testing.T) {
	s := start(t)
	c := s.connect(t)
	str := func(s string) []byte { return ssh.Marshal(struct{ S string }{s}) }
	for _, tt := range []struct {
		name    string
		payload []byte
	}{
		{"auth-agent-req@openssh.com", nil},
		{"x11-req", nil},
		{"subsystem", str("netconf")},
		{"subsystem", nil},
		{"pty-req", []byte{1, 2, 3}},
		{"pty-req", []byte("\xff\xff\xff\xffxterm")},
		{"window-change", []byte{0}},
		{"window-change", make([]byte, 16)}, // without a terminal
		{"signal", str("TERM")},             // without a program
		{"env", str("LANG")},
		{"env", ssh.Marshal(struct{ A, B string }{"LD_PRELOAD", "/evil.so"})},
		{"env", ssh.Marshal(struct{ A, B string }{"PATH", "/evil"})},
		{"env", ssh.Marshal(struct{ A, B string }{"LC_A\x00B", "x"})},
		{"env", ssh.Marshal(struct{ A, B string }{"BASH_ENV", "x"})},
		{"unknown@example.org", make([]byte, 1000)},
		{"", nil},
	} {
		ch, reqs, err := c.OpenChannel("session", nil)
		if err != nil {
			t.Fatal(err)
		}
		go ssh.DiscardRequests(reqs)
		if ok, err := ch.SendRequest(tt.name, true, tt.payload); ok || err != nil {
			t.Errorf("%s %q: %v, %v", tt.name, tt.payload, ok, err)
		}
		ch.Close()
	}
	for _, tt := range []struct {
		kind  string
		extra []byte
	}{
		{"x11", nil},
		{"forwarded-tcpip", nil},
		{"direct-streamlocal@openssh.com", nil},
		{"tun@openssh.com", nil},
		{"direct-tcpip", []byte{1}},
		{guest.CallChannel, []byte("{")},
		{guest.CallChannel, []byte(`{"method":7}`)},
		{guest.CallChannel, []byte(`{"method":"` + strings.Repeat("x", 100) + `"}`)},
		{guest.CallChannel, []byte(`{"method":"hello","params":"` + strings.Repeat("x", guest.MaxRequest) + `"}`)},
		{guest.CallChannel, []byte(strings.Repeat("[", 100000))},
	} {
		if ch, _, err := c.OpenChannel(tt.kind, tt.extra); err == nil {
			ch.Close()
			t.Errorf("channel %s %.40q was opened", tt.kind, tt.extra)
		}
	}
	if _, err := c.Listen("tcp", "127.0.0.1:0"); err == nil {
		t.Error("the guest listens for the client")
	}
	if ok, _, err := c.SendRequest("keepalive@openssh.com", true, nil); ok || err != nil {
		t.Errorf("keepalive: %v, %v", ok, err)
	}
	out, err := newSession(t, c).Output("echo still here")
	if err != nil || string(out) != "still here\n" {
		t.Errorf("afterwards: %q, %v", out, err)
	}
}

// Requests of ours with nonsense in them end the channel with a reason, and nothing else.
func TestMalformedRequestsOfOurs(t *testing.T) {
	s := start(t)
	c := s.connect(t)
	for _, name := range []string{guest.ExecRequestName, guest.ConsoleRequestName} {
		for _, payload := range []string{
			"", "{", "null", "[]", `{"argv":7}`, `{"argv":[]}`, `{"argv":["a\u0000b"]}`, `{"argv":["true"],"env":{"A=":"x"}}`, `{"name":"a/b"}`, `{"name":"a\u001b[31m"}`,
			`{"argv":["` + strings.Repeat("x", guest.MaxRequest) + `"],"name":"x"}`,
			strings.Repeat(`{"argv":`, 20000),
		} {
			ch, reqs, err := c.OpenChannel("session", nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ch.SendRequest(name, false, []byte(payload)); err != nil {
				t.Fatal(err)
			}
			var reason string
			status := false
			for r := range reqs {
				switch r.Type {
				case guest.ExitErrorName:
					reason = string(r.Payload)
				case "exit-status":
					status = true
				}
			}
			if reason == "" || !status {
				t.Errorf("%s %.60q: reason %q, status %v", name, payload, reason, status)
			}
			ch.Close()
		}
	}
	if n := len(s.Consoles()); n != 0 {
		t.Errorf("%d consoles were made", n)
	}
}

func TestChannelFlood(t *testing.T) {
	c := start(t).connect(t)
	var open []ssh.Channel
	refused := 0
	for range maxChannels + 20 {
		ch, reqs, err := c.OpenChannel("session", nil)
		if err != nil {
			refused++
			continue
		}
		go ssh.DiscardRequests(reqs)
		open = append(open, ch)
	}
	if len(open) != maxChannels || refused != 20 {
		t.Errorf("%d channels, %d refused", len(open), refused)
	}
	for _, ch := range open {
		ch.Close()
	}
	// The places are free again as soon as the server has seen it.
	for deadline := time.Now().Add(10 * time.Second); ; {
		ch, reqs, err := c.OpenChannel("session", nil)
		if err == nil {
			go ssh.DiscardRequests(reqs)
			ch.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}
