//go:build linux

package sshd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"bromure.io/tui/vm/guest"
)

// openssh makes command lines of the real client for a server.
func openssh(t *testing.T, s *testServer) (options []string) {
	t.Helper()
	if _, err := exec.LookPath("ssh"); err != nil {
		t.Skip("needs OpenSSH's client: apt-get install openssh-client")
	}
	dir := t.TempDir()
	host, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		t.Fatal(err)
	}
	known := fmt.Sprintf("[%s]:%s %s", host, port, ssh.MarshalAuthorizedKey(s.host.PublicKey()))
	for name, text := range map[string]string{"key": s.clientPEM, "known": known} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return []string{
		"-F", "none", "-o", "IdentityFile=" + filepath.Join(dir, "key"), "-o", "UserKnownHostsFile=" + filepath.Join(dir, "known"), "-o", "GlobalKnownHostsFile=none",
		"-o", "StrictHostKeyChecking=yes", "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR", "-o", "Port=" + port, "-o", "User=" + guest.User,
	}
}

func command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return exec.CommandContext(ctx, name, args...)
}

func TestOpenSSH(t *testing.T) {
	s := start(t)
	opts := openssh(t, s)
	ssh := func(args ...string) *exec.Cmd { return command(t, "ssh", append(opts, args...)...) }

	var stdout, stderr bytes.Buffer
	cmd := ssh("127.0.0.1", "cat; echo err >&2; exit 7")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("in\n"), &stdout, &stderr
	err := cmd.Run()
	if e, ok := err.(*exec.ExitError); !ok || e.ExitCode() != 7 || stdout.String() != "in\n" || stderr.String() != "err\n" {
		t.Errorf("exec: %q, %q, %v", stdout.String(), stderr.String(), err)
	}

	out, err := ssh("-tt", "127.0.0.1", "tty >/dev/null && echo terminal $TERM").Output()
	if err != nil || !strings.HasPrefix(string(out), "terminal ") {
		t.Errorf("terminal: %q, %v", out, err)
	}

	cmd = ssh("127.0.0.1")
	cmd.Stdin = strings.NewReader("echo shell; exit 4\n")
	out, err = cmd.Output()
	if e, ok := err.(*exec.ExitError); !ok || e.ExitCode() != 4 || string(out) != "shell\n" {
		t.Errorf("shell: %q, %v", out, err)
	}

	// Every cipher and key exchange that both know.
	for _, o := range []string{"Ciphers=aes128-gcm@openssh.com", "Ciphers=chacha20-poly1305@openssh.com", "Ciphers=aes256-gcm@openssh.com", "KexAlgorithms=curve25519-sha256"} {
		if out, err := ssh("-o", o, "127.0.0.1", "echo hi").CombinedOutput(); err != nil || string(out) != "hi\n" {
			t.Errorf("%s: %q, %v", o, out, err)
		}
	}
	if out, err := ssh("-o", "Ciphers=aes128-ctr", "127.0.0.1", "true").CombinedOutput(); err == nil {
		t.Errorf("an old cipher works: %q", out)
	}

	// A program that reads nothing of an input without end, and prints a lot.
	cmd = ssh("127.0.0.1", "exec <&-; yes | head -c 3000000")
	cmd.Stdin = endless{}
	if out, err := cmd.Output(); err != nil || len(out) != 3000000 {
		t.Errorf("%d bytes, %v", len(out), err)
	}
}

// endless is an input that never ends.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

func TestOpenSSHForward(t *testing.T) {
	s := start(t)
	opts := openssh(t, s)
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
			b, _ := io.ReadAll(c)
			_, _ = c.Write(bytes.ToUpper(b))
			c.Close()
		}
	}()
	cmd := command(t, "ssh", append(opts, "-W", ln.Addr().String(), "127.0.0.1")...)
	cmd.Stdin = strings.NewReader("through")
	if out, err := cmd.Output(); err != nil || string(out) != "THROUGH" {
		t.Errorf("%q, %v", out, err)
	}
	if out, err := command(t, "ssh", append(opts, "-o", "ExitOnForwardFailure=yes", "-R", "0:127.0.0.1:1", "127.0.0.1", "true")...).CombinedOutput(); err == nil {
		t.Errorf("a remote forward works: %q", out)
	}
}

func TestOpenSSHSFTP(t *testing.T) {
	s := start(t)
	opts := openssh(t, s)
	local := filepath.Join(t.TempDir(), "local")
	data := bytes.Repeat([]byte("0123456789abcdef"), 100000)
	if err := os.WriteFile(local, data, 0o640); err != nil {
		t.Fatal(err)
	}
	cmd := command(t, "sftp", append(opts, "-b", "-", "127.0.0.1")...)
	cmd.Stdin = strings.NewReader("put " + local + " remote\nget remote " + local + ".back\nmkdir d\nrename remote d/renamed\nls d\n")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s%v", out, err)
	}
	for _, path := range []string{local + ".back", filepath.Join(s.home, "d", "renamed")} {
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: %d bytes, %v", path, len(got), err)
		}
	}
	if out, err := command(t, "scp", append(opts, local, "127.0.0.1:copied")...).CombinedOutput(); err != nil {
		t.Errorf("scp: %s%v", out, err)
	}
	if got, err := os.ReadFile(filepath.Join(s.home, "copied")); err != nil || !bytes.Equal(got, data) {
		t.Errorf("scp: %d bytes, %v", len(got), err)
	}
}

// The library's client, for hosts without OpenSSH; and the server's process goes with the channel.
func TestSFTP(t *testing.T) {
	s := start(t)
	c, err := sftp.NewClient(s.connect(t))
	if err != nil {
		t.Fatal(err)
	}
	f, err := c.Create("file")
	if err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat([]byte("x"), 1<<20)
	if _, err := f.ReadFrom(bytes.NewReader(data)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(s.home, "file")); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if wd, err := c.Getwd(); err != nil || wd != s.home {
		t.Errorf("in %q, %v", wd, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
