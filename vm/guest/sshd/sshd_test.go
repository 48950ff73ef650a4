//go:build linux

package sshd

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/crypto/ssh"

	"bromure.io/tui/vm/guest"
)

// sftpArg makes the test binary an sftp server, as the guest program is one.
const sftpArg = "sshd-test-sftp"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == sftpArg {
		if err := RunSFTP(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func newKey(t testing.TB) (ssh.Signer, string) {
	t.Helper()
	_, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(priv)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(priv, "")
	if err != nil {
		t.Fatal(err)
	}
	return signer, string(pem.EncodeToMemory(block))
}

// testServer is a running server whose user is the current one.
type testServer struct {
	*Server
	addr      string
	host      ssh.Signer
	client    ssh.Signer
	clientPEM string
	home      string
}

func start(t testing.TB, change ...func(*Config)) *testServer {
	t.Helper()
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	s := &testServer{home: t.TempDir()}
	etc := t.TempDir()
	for name, text := range map[string]string{
		"passwd": fmt.Sprintf("root:x:0:0:root:/root:/bin/bash\nubuntu:x:%s:%s::%s:/bin/bash\n", me.Uid, me.Gid, s.home),
		"group":  "tty:x:5:\n",
	} {
		if err := os.WriteFile(filepath.Join(etc, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s.host, _ = newKey(t)
	s.client, s.clientPEM = newKey(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{HostKey: s.host, ClientKey: s.client.PublicKey(), Etc: etc, SFTP: []string{self, sftpArg}}
	for _, f := range change {
		f(&cfg)
	}
	if s.Server, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = ln.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, ln) }()
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
	return s
}

func (s *testServer) config(name string, key ssh.Signer) *ssh.ClientConfig {
	return &ssh.ClientConfig{
		User: name, Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: ssh.FixedHostKey(s.host.PublicKey()),
		Timeout: 10 * time.Second,
	}
}

func (s *testServer) connect(t testing.TB) *ssh.Client {
	t.Helper()
	c, err := ssh.Dial("tcp", s.addr, s.config(guest.User, s.client))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func newSession(t testing.TB, c *ssh.Client) *ssh.Session {
	t.Helper()
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWhoMayLogIn(t *testing.T) {
	s := start(t)
	other, _ := newKey(t)
	for _, tt := range []struct {
		name string
		key  ssh.Signer
		ok   bool
	}{
		{guest.User, s.client, true},
		{"root", s.client, true},
		{"daemon", s.client, false},
		{"", s.client, false},
		{guest.User, other, false},
		{"root", other, false},
		{guest.User, s.host, false},
	} {
		c, err := ssh.Dial("tcp", s.addr, s.config(tt.name, tt.key))
		if (err == nil) != tt.ok {
			t.Errorf("%q: %v", tt.name, err)
		}
		if err == nil {
			c.Close()
		}
	}
	// Without a key, with a password, with questions: none of them is offered.
	cfg := s.config(guest.User, s.client)
	cfg.Auth = []ssh.AuthMethod{ssh.Password(""), ssh.KeyboardInteractive(func(_, _ string, q []string, _ []bool) ([]string, error) {
		t.Error("asked something")
		return make([]string, len(q)), nil
	})}
	if _, err := ssh.Dial("tcp", s.addr, cfg); err == nil || !strings.Contains(err.Error(), "attempted methods [none]") {
		t.Errorf("without a key: %v", err)
	}
}

func TestOldAlgorithmsAreRefused(t *testing.T) {
	s := start(t)
	for what, change := range map[string]func(*ssh.ClientConfig){
		"cipher": func(c *ssh.ClientConfig) { c.Ciphers = []string{ssh.CipherAES128CTR, ssh.InsecureCipherAES128CBC} },
		"exchange": func(c *ssh.ClientConfig) {
			c.KeyExchanges = []string{ssh.KeyExchangeDH14SHA256, ssh.KeyExchangeECDHP256}
		},
		"host key": func(c *ssh.ClientConfig) { c.HostKeyAlgorithms = []string{ssh.KeyAlgoRSASHA256} },
	} {
		cfg := s.config(guest.User, s.client)
		change(cfg)
		if c, err := ssh.Dial("tcp", s.addr, cfg); err == nil {
			c.Close()
			t.Errorf("an old %s works", what)
		}
	}
}

func TestOnlyTheGatewayIsServed(t *testing.T) {
	s := start(t, func(c *Config) { c.From = netip.MustParseAddr("192.168.127.1") })
	if c, err := ssh.Dial("tcp", s.addr, s.config(guest.User, s.client)); err == nil {
		c.Close()
		t.Error("served another address")
	}
	s = start(t, func(c *Config) { c.From = netip.MustParseAddr("127.0.0.1") })
	s.connect(t)
}

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

func TestOneProgramPerChannel(t *testing.T) {
	c := start(t).connect(t)
	ses := newSession(t, c)
	if err := ses.Start("sleep 1000"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"exec", "shell", guest.ExecRequestName, "env", "pty-req"} {
		if ok, err := ses.SendRequest(name, true, ssh.Marshal(struct{ S string }{"true"})); ok || err != nil {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
	ses.Close()
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

// Standard sessions, as other SSH libraries and editors open them.
func TestStandardSession(t *testing.T) {
	s := start(t)
	c := s.connect(t)
	out, err := newSession(t, c).CombinedOutput("echo $0 $SHELL; pwd; exit 3")
	if e, ok := err.(*ssh.ExitError); !ok || e.ExitStatus() != 3 || string(out) != "bash /bin/bash\n"+s.home+"\n" {
		t.Errorf("exec: %q, %v", out, err)
	}
	_, err = newSession(t, c).CombinedOutput("kill -KILL $$")
	if e, ok := err.(*ssh.ExitError); !ok || e.Signal() != "KILL" {
		t.Errorf("killed: %v", err)
	}
	ses := newSession(t, c)
	if err := ses.Setenv("LC_ALL", "C"); err != nil {
		t.Error(err)
	}
	out, err = ses.Output(`echo $LC_ALL; test -n "$SSH_CONNECTION"`)
	if err != nil || string(out) != "C\n" {
		t.Errorf("env: %q, %v", out, err)
	}

	ses = newSession(t, c)
	if err := ses.RequestPty("vt100", 20, 60, ssh.TerminalModes{ssh.ECHO: 0}); err != nil {
		t.Fatal(err)
	}
	ses.Stdin = strings.NewReader("stty size; echo $TERM; shopt -q login_shell && echo login; exit 5\n")
	out, err = func() ([]byte, error) {
		var b strings.Builder
		ses.Stdout = &b
		if err := ses.Shell(); err != nil {
			return nil, err
		}
		err := ses.Wait()
		return []byte(b.String()), err
	}()
	if e, ok := err.(*ssh.ExitError); !ok || e.ExitStatus() != 5 || !strings.Contains(string(out), "20 60\r\nvt100\r\nlogin\r\n") {
		t.Errorf("shell: %q, %v", out, err)
	}
}

// A server that is told to end does so with everything on it.
func TestServeEndsEverything(t *testing.T) {
	s := start(t)
	c := s.connect(t)
	ses := newSession(t, c)
	if err := ses.Start("sleep 1000"); err != nil {
		t.Fatal(err)
	}
	ch, reqs, err := c.OpenChannel("session", nil)
	if err != nil {
		t.Fatal(err)
	}
	go ssh.DiscardRequests(reqs)
	if ok, err := ch.SendRequest(guest.ConsoleRequestName, true, []byte(`{"name":"main","argv":["sleep","1000"]}`)); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if _, err := ch.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	// start's clean-up asserts that Serve returns, TestMain that nothing is left.
}

func TestParseForward(t *testing.T) {
	local := func() ([]net.Addr, error) {
		return []net.Addr{&net.IPNet{IP: net.IPv4(192, 168, 127, 2), Mask: net.CIDRMask(24, 32)}}, nil
	}
	ask := func(host string, port uint32) []byte {
		return ssh.Marshal(struct {
			Host string
			Port uint32
			From string
			FP   uint32
		}{host, port, "x", 1})
	}
	for host, want := range map[string]int{
		"localhost": 2, "127.0.0.1": 1, "127.5.5.5": 1, "::1": 1, "192.168.127.2": 1, "::ffff:127.0.0.1": 1,
		"192.168.127.1": 0, "192.168.127.255": 0, "0.0.0.0": 0, "10.0.0.1": 0, "example.org": 0, "127.0.0.1.evil": 0, "fe80::1%lo": 0,
	} {
		if a, err := parseForward(ask(host, 80), local); len(a) != want || (err == nil) != (want > 0) {
			t.Errorf("%s: %v, %v", host, a, err)
		}
	}
	for _, port := range []uint32{0, 65536, 1<<32 - 1} {
		if _, err := parseForward(ask("localhost", port), local); err == nil {
			t.Errorf("port %d", port)
		}
	}
}
