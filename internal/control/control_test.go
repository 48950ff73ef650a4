package control_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"bromure.io/tui/internal/control"
	"bromure.io/tui/internal/control/controltest"
	"bromure.io/tui/internal/layout"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// short is a temporary directory with a short path: a socket goes into it.
func short(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "br")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// serve serves svc on a socket of its own and returns the server and a client.
func serve(t testing.TB, svc control.Service) (*control.Server, *control.Client) {
	t.Helper()
	dir := short(t)
	rt := layout.Runtime(dir + "/run")
	l, err := control.Listen(layout.Root(dir), rt)
	if err != nil {
		t.Fatal(err)
	}
	s := control.NewServer(svc, slog.New(slog.NewTextHandler(io.Discard, nil)))
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	c := control.NewClient(rt.ControlSocket())
	t.Cleanup(func() {
		c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return s, c
}

func newFake(t testing.TB) *controltest.Fake {
	f := controltest.NewFake(layout.Root(t.TempDir()), "1.0", nil)
	t.Cleanup(f.Close)
	return f
}

func newFuzzServer(f *testing.F) *control.Client {
	_, c := serve(f, newFake(f))
	running(f, c)
	return c
}

func TestFakeKeepsTheContract(t *testing.T) {
	controltest.Contract(t, true, func(t *testing.T) control.Service { return newFake(t) })
}

// TestSocketKeepsTheContract: the way over the socket changes nothing.
func TestSocketKeepsTheContract(t *testing.T) {
	controltest.Contract(t, true, func(t *testing.T) control.Service {
		_, c := serve(t, newFake(t))
		return controltest.Remote(c)
	})
}

// raw sends bytes to the server and returns what comes back until it closes.
func raw(t *testing.T, c *control.Client, request string) string {
	t.Helper()
	conn, err := net.Dial("unix", c.Socket())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(conn)
	if err != nil {
		t.Fatalf("after %q: %v", data, err)
	}
	return string(data)
}
