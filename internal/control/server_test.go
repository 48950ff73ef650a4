package control_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"bromure.io/tui/internal/control"
	"bromure.io/tui/internal/control/controltest"
	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
)

// TestErrorsComeThrough: kind, hint and step, as an answer and in the middle of a stream.
func TestErrorsComeThrough(t *testing.T) {
	_, c := serve(t, newFake(t))
	ctx := t.Context()
	if _, err := c.Create(ctx, wire.Create{Name: "w", Notes: controltest.FailStart}); err != nil {
		t.Fatal(err)
	}
	var steps []string
	last, err := c.Do(ctx, wire.Do{Verb: "start", Workspace: "w"}, func(p wire.Progress) {
		if p.Done || p.Error != nil {
			t.Errorf("reported as progress: %+v", p)
		}
		steps = append(steps, p.Step)
	})
	if problem.KindOf(err) != problem.DeadlineMiss || !strings.Contains(problem.HintOf(err), "vm logs") || last.Error == nil || last.Error.Step != "ssh" {
		t.Errorf("%v, hint %q, %+v", err, problem.HintOf(err), last.Error)
	}
	if got := strings.Join(steps, " "); got != "disks disks boot boot ssh" {
		t.Errorf("steps %q", got)
	}
	// An error before anything was reported is a plain answer.
	got := raw(t, c, "POST /v1/do HTTP/1.1\r\nHost: bromure\r\nConnection: close\r\nContent-Length: 33\r\n\r\n{\"verb\":\"stop\",\"workspace\":\"none\"}")
	if !strings.HasPrefix(got, "HTTP/1.1 400") && !strings.HasPrefix(got, "HTTP/1.1 404") {
		t.Errorf("%.200q", got)
	}
}

// TestFrontGoesAway: the operation's context ends with its front.
func TestFrontGoesAway(t *testing.T) {
	_, c := serve(t, newFake(t))
	if _, err := c.Create(t.Context(), wire.Create{Name: "w", Notes: controltest.HangStart}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := c.Do(ctx, wire.Do{Verb: "start", Workspace: "w"}, func(wire.Progress) { cancel() })
	if problem.KindOf(err) != problem.Interrupted {
		t.Errorf("the front got %v", err)
	}
	waitFor(t, c, func(s wire.Snapshot) bool { return s.Workspaces[0].State == vm.Broken })
}

func waitFor(t *testing.T, c *control.Client, ok func(wire.Snapshot) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	for snap, err := range c.Watch(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if ok(snap) {
			return
		}
	}
}

// flood reports more than any buffer holds.
type flood struct {
	control.Service
	reported chan struct{}
}

func (f flood) Do(_ context.Context, _ wire.Do, report func(wire.Progress)) (wire.Progress, error) {
	for range 5000 {
		report(wire.Progress{Step: "s", Note: strings.Repeat("x", 1000)})
	}
	close(f.reported)
	return wire.Progress{Image: "x"}, nil
}

// TestFrontThatDoesNotRead: an operation never waits for its front, and its last word is not dropped.
func TestFrontThatDoesNotRead(t *testing.T) {
	f := flood{newFake(t), make(chan struct{})}
	_, c := serve(t, f)
	conn, err := net.Dial("unix", c.Socket())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := `{"verb":"image-build"}`
	if _, err := io.WriteString(conn, "POST /v1/do HTTP/1.1\r\nHost: bromure\r\nConnection: close\r\nContent-Length: 22\r\n\r\n"+body); err != nil {
		t.Fatal(err)
	}
	select {
	case <-f.reported:
	case <-time.After(15 * time.Second):
		t.Fatal("the operation waits for its front")
	}
	data, err := io.ReadAll(conn)
	if err != nil || !strings.Contains(string(data), `"done":true,"image":"x"`) {
		t.Errorf("%v, the end is %.200q", err, data[max(0, len(data)-200):])
	}
}

// breaks panics.
type breaks struct{ control.Service }

func (breaks) Do(context.Context, wire.Do, func(wire.Progress)) (wire.Progress, error) {
	panic("on purpose")
}

func TestPanicIsAnError(t *testing.T) {
	_, c := serve(t, breaks{newFake(t)})
	_, err := c.Do(t.Context(), wire.Do{Verb: "image-build"}, nil)
	if err == nil || !strings.Contains(err.Error(), "internal error") {
		t.Errorf("%v", err)
	}
	if _, err := c.Health(t.Context()); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestShutdownEndsFollowersAndWaitsForOperations.
func TestShutdown(t *testing.T) {
	fake := newFake(t)
	server, c := serve(t, fake)
	ctx := t.Context()
	for _, name := range []string{"w", "slow"} {
		if _, err := c.Create(ctx, wire.Create{Name: name, Notes: map[string]string{"slow": controltest.SlowStart}[name]}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Do(ctx, wire.Do{Verb: "start", Workspace: "w"}, nil); err != nil {
		t.Fatal(err)
	}
	stream, err := c.Attach(ctx, "w", wire.Attach{Exec: execArgv("sh", "-c", "echo ready; exec sleep 1000")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(stream.Stdout(), make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	log, err := c.Logs(ctx, "w", "serial", wire.LogQuery{Follow: true, Tail: -1})
	if err != nil {
		t.Fatal(err)
	}
	far, err := c.Forward(ctx, "w", "localhost:80")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	watching, started := make(chan struct{}), make(chan struct{})
	wg.Go(func() {
		n := 0
		for _, err := range c.Watch(ctx) {
			if n++; n == 1 {
				close(watching)
			}
			_ = err
		}
	})
	var once sync.Once
	wg.Go(func() {
		if _, err := c.Do(ctx, wire.Do{Verb: "start", Workspace: "slow"}, func(wire.Progress) { once.Do(func() { close(started) }) }); err != nil {
			t.Errorf("the operation in progress: %v", err)
		}
	})
	<-watching
	<-started
	if err := server.Shutdown(ctx); err != nil {
		t.Errorf("shutdown: %v", err)
	}
	wg.Wait()
	if _, err := io.Copy(io.Discard, log); err != nil {
		t.Errorf("the followed log: %v", err)
	}
	if _, err := io.ReadAll(far); err != nil {
		t.Errorf("the forward: %v", err)
	}
	go func() { _, _ = io.Copy(io.Discard, stream.Stderr()) }()
	_, _ = io.Copy(io.Discard, stream.Stdout())
	if _, err := stream.Wait(); err == nil {
		t.Error("the stream ended without an error")
	}
	log.Close()
	far.Close()
	stream.Close()
	if _, idle := server.Idle(); !idle {
		t.Error("not idle after a shutdown")
	}
	if _, err := c.Health(ctx); problem.KindOf(err) != problem.Unreachable {
		t.Errorf("afterwards: %v", err)
	}
}

func TestIdle(t *testing.T) {
	server, c := serve(t, newFake(t))
	before, idle := server.Idle()
	if !idle {
		t.Fatal("busy from the beginning")
	}
	ctx, cancel := context.WithCancel(t.Context())
	for range c.Watch(ctx) {
		if _, idle := server.Idle(); idle {
			t.Error("idle while somebody watches")
		}
		break
	}
	cancel()
	deadline := time.Now().Add(15 * time.Second)
	for {
		if since, idle := server.Idle(); idle {
			if !since.After(before) {
				t.Error("the idle time began before the last request")
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("busy although nobody is there")
		}
	}
}

// TestSnapshotRoundTrips: an embedded type with methods of its own for JSON would hide every other field.
func TestSnapshotRoundTrips(t *testing.T) {
	w := wire.Workspace{State: vm.Broken, Failure: &vm.Failure{Step: "ssh"}, DiskOwn: 5, Dir: "/d"}
	w.Name, w.Notes = "n", "x\u009b"
	data, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	var got wire.Workspace
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if got.State != w.State || got.Failure.Step != "ssh" || got.DiskOwn != 5 || got.Dir != "/d" || got.Name != "n" || got.Notes != w.Notes {
		t.Errorf("%s", data)
	}
}

func TestForward(t *testing.T) {
	_, c := serve(t, newFake(t))
	ctx := t.Context()
	if _, err := c.Create(ctx, wire.Create{Name: "w"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Do(ctx, wire.Do{Verb: "start", Workspace: "w"}, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Forward(ctx, "w", "localhost:1"); problem.KindOf(err) != problem.Refused {
		t.Errorf("a port where nobody listens: %v", err)
	}
	far, err := c.Forward(ctx, "w", "localhost:80")
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	go func() {
		_, _ = io.WriteString(far, strings.Repeat("hello", 100_000))
		_ = far.(interface{ CloseWrite() error }).CloseWrite()
	}()
	data, err := io.ReadAll(far)
	if err != nil || len(data) != 500_000 {
		t.Errorf("echo of half a stream: %d bytes, %v", len(data), err)
	}
	if err := far.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}
