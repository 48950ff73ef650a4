package link_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
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
