//go:build linux

package sshd

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
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
