package control

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
)

func TestConnectStartsNothingUnasked(t *testing.T) {
	root, rt := dirs(t)
	_, err := Connect(t.Context(), Options{Root: root, Runtime: rt, Command: []string{"/no/such/program"}})
	if !NotRunning(err) || problem.KindOf(err) != problem.Unreachable || problem.HintOf(err) == "" {
		t.Errorf("%v", err)
	}
	if entries, _ := os.ReadDir(string(root)); len(entries) != 0 {
		t.Errorf("looking for a daemon left %v", entries)
	}
}

// TestConnectToADaemonThatFails: its last words are in the hint, made fit for a terminal; older ones are not.
func TestConnectToADaemonThatFails(t *testing.T) {
	root, rt := dirs(t)
	if _, err := prepareRoot(root); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(root.DaemonLog(), []byte("of an earlier day\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(o Options) error {
		o.Root, o.Runtime, o.Start = root, rt, true
		_, err := Connect(t.Context(), o)
		return err
	}
	err := run(Options{Command: []string{"sh", "-c", `printf 'disk \033[2J on fire\n' >&2; exit 1`}})
	if hint := problem.HintOf(err); problem.KindOf(err) != problem.Unreachable || !strings.Contains(hint, `disk \x1b[2J on fire`) || strings.Contains(hint, "earlier") {
		t.Errorf("%v, hint %q", err, hint)
	}
	err = run(Options{Command: []string{"sh", "-c", "echo waiting; exec sleep 0.6"}, Deadline: 300 * time.Millisecond})
	if problem.KindOf(err) != problem.Unreachable || !strings.Contains(err.Error(), "did not answer within 300ms") || !strings.Contains(problem.HintOf(err), "waiting") {
		t.Errorf("%v, hint %q", err, problem.HintOf(err))
	}
	err = run(Options{Command: []string{"/no/such/program"}})
	if problem.KindOf(err) != problem.Unreachable || !strings.Contains(err.Error(), "/no/such/program") {
		t.Errorf("%v", err)
	}
	// Whoever lost waits for the winner, and tries again while there is none, until the deadline.
	err = run(Options{Command: []string{"sh", "-c", fmt.Sprintf("echo lost; exit %d", ExitLost)}, Deadline: 2500 * time.Millisecond})
	if n := strings.Count(problem.HintOf(err), "lost"); n < 2 || n > 4 {
		t.Errorf("%v, %d tries", err, n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Connect(ctx, Options{Root: root, Runtime: rt, Start: true, Command: []string{"sleep", "0.2"}}); problem.KindOf(err) != problem.Interrupted {
		t.Errorf("with an ended context: %v", err)
	}
}

// answering serves a health by hand.
func answering(t *testing.T, root layout.Root, rt layout.Runtime, h wire.Health) {
	t.Helper()
	l, err := Listen(root, rt)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, h) })}
	done := make(chan struct{})
	go func() { _ = s.Serve(l); close(done) }()
	t.Cleanup(func() { s.Close(); <-done })
}

func TestConnectToAnotherVersion(t *testing.T) {
	root, rt := dirs(t)
	answering(t, root, rt, wire.Health{Version: "2", API: wire.API, PID: 7, Root: root})
	var met wire.Health
	c, err := Connect(t.Context(), Options{Root: root, Runtime: rt, Version: "1", Skew: func(h wire.Health) { met = h }})
	if err != nil || met.Version != "2" {
		t.Fatalf("%v, met %+v", err, met)
	}
	c.Close()
}

func TestConnectToAnotherAPI(t *testing.T) {
	root, rt := dirs(t)
	answering(t, root, rt, wire.Health{Version: "9", API: wire.API + 1, PID: 77, Root: root})
	_, err := Connect(t.Context(), Options{Root: root, Runtime: rt, Version: "1", Start: true})
	if problem.KindOf(err) != problem.Refused || !strings.Contains(problem.HintOf(err), "kill 77") {
		t.Errorf("%v, hint %q", err, problem.HintOf(err))
	}
}

func TestConnectToAnotherRoot(t *testing.T) {
	root, rt := dirs(t)
	answering(t, root, rt, wire.Health{Version: "1", API: wire.API, PID: 7, Root: "/somewhere/else"})
	if _, err := Connect(t.Context(), Options{Root: root, Runtime: rt, Version: "1", Start: true}); err == nil || !strings.Contains(err.Error(), "another data root") {
		t.Errorf("%v", err)
	}
}

// TestConnectToADaemonThatHangs: it accepts and does not answer. No second one is started beside it.
func TestConnectToADaemonThatHangs(t *testing.T) {
	root, rt := dirs(t)
	if err := layout.Ensure(string(rt)); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", rt.ControlSocket())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = Connect(ctx, Options{Root: root, Runtime: rt, Start: true, Command: []string{"/no/such/program"}})
	if err == nil || strings.Contains(err.Error(), "no/such") {
		t.Errorf("%v", err)
	}
}

func TestLastLines(t *testing.T) {
	path := t.TempDir() + "/log"
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	for from, want := range map[int64]int{0: shownLines, int64(b.Len()) - 20: 2, int64(b.Len()): 0, 1 << 40: shownLines} {
		got := lastLines(path, from)
		if n := strings.Count(got, "line"); n != want {
			t.Errorf("from %d: %d lines, want %d: %q", from, n, want, got)
		}
	}
	if got := lastLines(path+"x", 0); got != "" {
		t.Errorf("of no file: %q", got)
	}
}

func TestPath(t *testing.T) {
	for _, c := range []struct {
		pattern string
		elems   []string
		want    string
	}{
		{wire.PathHealth, nil, "/v1/health"},
		{wire.PathWorkspace, []string{"a b/c%"}, "/v1/workspaces/a%20b%2Fc%25"},
		{wire.PathForward, []string{"日", "h:1"}, "/v1/forward/%E6%97%A5/h:1"},
		{wire.PathVerify, []string{wire.Newest}, "/v1/images/@newest/verify"},
	} {
		if got := path(c.pattern, c.elems...); got != c.want {
			t.Errorf("%s %q: %s", c.pattern, c.elems, got)
		}
	}
}

// TestConnectWhileOneLeaves: who needs a daemon waits for the end of the one that is leaving, and starts the next one then;
// who only looks is told.
func TestConnectWhileOneLeaves(t *testing.T) {
	root, rt := dirs(t)
	l, err := Listen(root, rt)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{}, 1000)
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, wire.Health{Version: "1", API: wire.API, Root: root, Closing: true})
		asked <- struct{}{}
	})}
	done := make(chan struct{})
	go func() { _ = s.Serve(l); close(done) }()
	if c, err := Connect(t.Context(), Options{Root: root, Runtime: rt, Version: "1"}); err != nil {
		t.Errorf("looking: %v", err)
	} else {
		c.Close()
	}
	o := Options{Root: root, Runtime: rt, Version: "1", Start: true, Command: []string{"sh", "-c", "echo started; exit 1"}, Deadline: 200 * time.Millisecond}
	if _, err := Connect(t.Context(), o); problem.KindOf(err) != problem.Unreachable || !strings.Contains(err.Error(), "finishing what is in progress") {
		t.Errorf("until the deadline: %v", err)
	}
	if _, err := os.Stat(root.DaemonLog()); err == nil {
		t.Error("a daemon was started beside the one that is leaving")
	}
	go func() {
		for range 5 {
			<-asked
		}
		s.Close()
	}()
	o.Deadline = 0
	if _, err := Connect(t.Context(), o); !strings.Contains(problem.HintOf(err), "started") {
		t.Errorf("afterwards: %v, hint %q", err, problem.HintOf(err))
	}
	<-done
}
