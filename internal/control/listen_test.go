package control

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
)

func dirs(t *testing.T) (layout.Root, layout.Runtime) {
	t.Helper()
	dir, err := os.MkdirTemp("", "br")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return layout.Root(dir), layout.Runtime(filepath.Join(dir, "run"))
}

func TestListenIsPrivate(t *testing.T) {
	root, rt := dirs(t)
	l, err := Listen(root, rt)
	if err != nil {
		t.Fatal(err)
	}
	for path, mode := range map[string]os.FileMode{rt.ControlSocket(): 0o600, string(rt): 0o700, root.Endpoint(): 0o600} {
		fi, err := os.Stat(path)
		if err != nil || fi.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, fi.Mode(), err)
		}
	}
	l.Close()
	if _, err := os.Lstat(rt.ControlSocket()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left behind: %v", err)
	}
}

// TestListenOnALiveSocket: one that answers is never unlinked, even when its owner is slow to accept.
func TestListenOnALiveSocket(t *testing.T) {
	root, rt := dirs(t)
	first, err := Listen(root, rt)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if _, err := Listen(root, rt); problem.KindOf(err) != problem.Refused {
		t.Errorf("a second daemon: %v", err)
	}
	// Fill the queue of a socket with room for one: connect(2) gives EAGAIN, which is no sign of death.
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	full := rt.ControlSocket() + "2"
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: full}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		c, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer syscall.Close(c)
		if err := syscall.SetNonblock(c, true); err != nil {
			t.Fatal(err)
		}
		if syscall.Connect(c, &syscall.SockaddrUnix{Name: full}) != nil {
			break
		}
	}
	if err := removeDead(full); err == nil {
		t.Error("a socket with a full queue is taken for dead")
	}
	if _, err := os.Lstat(full); err != nil {
		t.Errorf("it was removed: %v", err)
	}
}

func TestListenAfterACrash(t *testing.T) {
	root, rt := dirs(t)
	if err := layout.Ensure(string(rt)); err != nil {
		t.Fatal(err)
	}
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: rt.ControlSocket(), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	l, err := Listen(root, rt)
	if err != nil {
		t.Fatalf("with a dead socket: %v", err)
	}
	l.Close()

	// What is no socket is the user's, and stays.
	if err := os.WriteFile(rt.ControlSocket(), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(root, rt); problem.KindOf(err) != problem.Refused {
		t.Errorf("with a file there: %v", err)
	}
	if data, err := os.ReadFile(rt.ControlSocket()); err != nil || string(data) != "mine" {
		t.Errorf("the file: %q, %v", data, err)
	}
}

// TestListenInAPlaceOfOthers is field case F73 and its neighbour: a path that is too long, a directory that is open.
func TestListenInAPlaceOfOthers(t *testing.T) {
	root, rt := dirs(t)
	long := layout.Runtime(filepath.Join(string(rt), strings.Repeat("a", 100)))
	if _, err := Listen(root, long); err == nil || !strings.Contains(err.Error(), "the limit is") {
		t.Errorf("a long path: %v", err)
	}
	if err := errors.Join(os.Mkdir(string(rt), 0o755), os.Chmod(string(rt), 0o755)); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(root, rt); err == nil || !strings.Contains(err.Error(), "may be entered by others") {
		t.Errorf("an open directory: %v", err)
	}
}

// TestPeers: whoever is another user is dropped without a word, and the next one is served.
func TestPeers(t *testing.T) {
	root, rt := dirs(t)
	l, err := Listen(root, rt)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	own := l.(*ownListener)
	uid := own.uid
	n := 0
	own.peer = func(c *net.UnixConn) (uint32, error) {
		got, err := peerUID(c)
		if err != nil || got != uid {
			t.Errorf("peer %d, %v", got, err)
		}
		switch n++; n {
		case 1:
			return uid + 1, nil
		case 2:
			return 0, errors.New("unknown")
		}
		return uid, nil
	}
	accepted := make(chan net.Conn)
	go func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
		}
		accepted <- c
	}()
	var conns [3]net.Conn
	for i := range conns {
		if conns[i], err = net.Dial("unix", rt.ControlSocket()); err != nil {
			t.Fatal(err)
		}
		defer conns[i].Close()
	}
	c := <-accepted
	defer c.Close()
	for i := range 2 {
		if _, err := conns[i].Read(make([]byte, 1)); err == nil {
			t.Errorf("connection %d was served", i)
		}
	}
	if _, err := c.Write([]byte("x")); err != nil {
		t.Error(err)
	}
	if _, err := conns[2].Read(make([]byte, 1)); err != nil {
		t.Errorf("the user's own connection: %v", err)
	}
}

// TestEndpointIsAHint: a damaged or hostile file leads nowhere else.
func TestEndpointIsAHint(t *testing.T) {
	root, rt := dirs(t)
	for _, content := range []string{"", "{", `{"socket":"relative"}`, `{"socket":5}`, `{"socket":"/` + strings.Repeat("a", 200) + `"}`, strings.Repeat(" ", 5000) + `{"socket":"/x"}`} {
		if err := os.WriteFile(root.Endpoint(), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := findSocket(root, rt); got != rt.ControlSocket() {
			t.Errorf("%.40q leads to %s", content, got)
		}
	}
	if err := writeEndpoint(root, "/x/y"); err != nil || findSocket(root, rt) != "/x/y" {
		t.Errorf("a good one: %v, %s", err, findSocket(root, rt))
	}
	if err := os.Remove(root.Endpoint()); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(root.Endpoint(), 0o600); err != nil {
		t.Fatal(err)
	}
	// Opening a FIFO for reading would wait for a writer.
	if got := findSocket(root, rt); got != rt.ControlSocket() {
		t.Errorf("a FIFO leads to %s", got)
	}
}
