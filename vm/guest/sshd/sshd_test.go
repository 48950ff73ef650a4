//go:build linux

package sshd

import (
	"net"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"bromure.io/tui/vm/guest"
)

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
