package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"bromure.io/tui/internal/failpoint"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
)

// The tests in this file run the test binary again as other processes. A child does one verb: it says "ready",
// waits for a line, does it, says how it went, and waits for the end of its input.
func TestMain(m *testing.M) {
	if verb := os.Getenv("STORE_TEST_VERB"); verb != "" {
		child(verb, layout.Root(os.Getenv("STORE_TEST_ROOT")), os.Getenv("STORE_TEST_ARG"))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(verb string, root layout.Root, arg string) {
	s := &Store{Root: root}
	stdin := bufio.NewReader(os.Stdin)
	fmt.Println("ready")
	if _, err := stdin.ReadString('\n'); err != nil {
		return
	}
	var err error
	switch verb {
	case "create":
		_, err = s.Create(context.Background(), NewWorkspace{Name: arg})
	case "create-until": // goes no further than the named step
		failpoint.Set(func(step string) {
			if step == "create: "+arg {
				fmt.Println("paused")
				io.Copy(io.Discard, stdin)
			}
		})
		_, err = s.Create(context.Background(), NewWorkspace{Name: "unfinished"})
	case "lock":
		_, err = s.Lock(vm.ID(arg))
	case "lock-and-leave": // a process of its own inherits the lock and outlives this one
		var l *Lock
		if l, err = s.Lock(vm.ID(arg)); err == nil {
			heir := exec.Command("sleep", "1000")
			heir.ExtraFiles = []*os.File{l.File()}
			if err = heir.Start(); err == nil {
				l.Unlock()
				fmt.Println("pid", heir.Process.Pid)
				return
			}
		}
	case "update":
		_, err = s.Update(vm.ID(arg), func(w *vm.Workspace) error { w.Notes += "x"; return nil })
	}
	switch {
	case err == nil:
		fmt.Println("ok")
	case errors.Is(err, vm.ErrLocked):
		fmt.Println("locked")
	default:
		fmt.Println(problem.KindOf(err), err)
	}
	io.Copy(io.Discard, stdin)
}

type proc struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func spawn(t *testing.T, s *Store, verb, arg string) *proc {
	t.Helper()
	p := &proc{cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), "STORE_TEST_VERB="+verb, "STORE_TEST_ROOT="+string(s.Root), "STORE_TEST_ARG="+arg)
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.in, p.out = in, bufio.NewReader(out)
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		p.cmd.Wait()
	})
	if got := p.line(t); got != "ready" {
		t.Fatalf("a child said %q", got)
	}
	return p
}

func (p *proc) line(t *testing.T) string {
	t.Helper()
	s, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatalf("a child said %q and ended: %v", s, err)
	}
	return strings.TrimSuffix(s, "\n")
}

func (p *proc) begin(t *testing.T) {
	t.Helper()
	if _, err := io.WriteString(p.in, "go\n"); err != nil {
		t.Fatal(err)
	}
}

// race runs the same verb in twenty processes that all are ready before the first begins.
func race(t *testing.T, s *Store, verb, arg string) (answers map[string]int) {
	t.Helper()
	var procs []*proc
	for range 20 {
		procs = append(procs, spawn(t, s, verb, arg))
	}
	for _, p := range procs {
		p.begin(t)
	}
	answers = map[string]int{}
	for _, p := range procs {
		answer, _, _ := strings.Cut(p.line(t), " ")
		answers[answer]++
	}
	return answers
}

func TestTwentyProcessesCreateOneName(t *testing.T) {
	s := newStore(t)
	if got := race(t, s, "create", "Same 名前"); got["ok"] != 1 || got[string(problem.Refused)] != 19 {
		t.Errorf("answers: %v", got)
	}
	if got := list(t, s); len(got) != 1 || got[0].Err != nil {
		t.Errorf("List = %v", names(got))
	}
}

func TestTwentyProcessesCreateUnnamed(t *testing.T) {
	s := newStore(t)
	if got := race(t, s, "create", ""); got["ok"] != 20 {
		t.Errorf("answers: %v", got)
	}
	macs, keys := map[vm.MAC]bool{}, map[string]bool{}
	for _, e := range list(t, s) {
		macs[e.Workspace.MAC], keys[e.Workspace.Name.Key()] = true, true
	}
	if len(macs) != 20 || len(keys) != 20 {
		t.Errorf("%d addresses and %d names for 20 workspaces", len(macs), len(keys))
	}
}

func TestTwentyProcessesUpdate(t *testing.T) {
	s := newStore(t)
	ws := create(t, s, "one")
	if got := race(t, s, "update", string(ws.ID)); got["ok"] != 20 {
		t.Errorf("answers: %v", got)
	}
	if got, err := s.Load(ws.ID); err != nil || got.Notes != strings.Repeat("x", 20) {
		t.Errorf("notes: %q, %v", got.Notes, err)
	}
}

func TestTwentyProcessesLock(t *testing.T) {
	s := newStore(t)
	ws := create(t, s, "one")
	if got := race(t, s, "lock", string(ws.ID)); got["ok"] != 1 || got["locked"] != 19 {
		t.Errorf("answers: %v", got)
	}
}

// The lock ends with the process that holds it, and not before: not with the process that took it.
func TestLockIsInherited(t *testing.T) {
	s := newStore(t)
	ws := create(t, s, "one")
	p := spawn(t, s, "lock-and-leave", string(ws.ID))
	p.begin(t)
	var pid int
	if n, err := fmt.Sscanf(p.line(t), "pid %d", &pid); n != 1 {
		t.Fatal(err)
	}
	p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	heir, err := os.FindProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer heir.Kill()
	if _, err := s.Lock(ws.ID); !errors.Is(err, vm.ErrLocked) {
		t.Errorf("with the heir alive: %v", err)
	}
	if err := heir.Kill(); err != nil {
		t.Fatal(err)
	}
	for { // the kernel drops the descriptor when the process has ended
		l, err := s.Lock(ws.ID)
		if err == nil {
			l.Unlock()
			return
		}
		if !errors.Is(err, vm.ErrLocked) {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
}

// kill -9 at every step of a creation: nothing half-made is ever visible, the next Open removes it, and
// the name and the address can be had again.
func TestCreateKilled(t *testing.T) {
	for _, step := range []string{"directory", "address", "content", "name"} {
		t.Run(step, func(t *testing.T) {
			s := newStore(t)
			before := create(t, s, "before")
			p := spawn(t, s, "create-until", step)
			p.begin(t)
			if got := p.line(t); got != "paused" {
				t.Fatalf("the child said %q", got)
			}
			whole := 1
			if step == "name" {
				whole = 2 // it is complete, only not yet reported
			}
			seen := func(when string) {
				t.Helper()
				entries := list(t, s)
				if len(entries) != whole {
					t.Errorf("%s: %q", when, names(entries))
				}
				for _, e := range entries {
					if e.Err != nil {
						t.Errorf("%s: %v", when, e.Err)
					}
				}
			}
			seen("while it is made")
			if err := p.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			p.cmd.Wait()
			seen("after kill -9")
			if _, err := Open(s.Root); err != nil {
				t.Fatal(err)
			}
			seen("after Open")
			left, err := os.ReadDir(s.Root.Workspaces())
			if err != nil || len(left) != whole+1 { // and .lock
				t.Errorf("left: %v, %v", left, err)
			}
			idx, err := s.readIndex()
			if err != nil || len(idx) != whole || idx[before.ID] != before.MAC {
				t.Errorf("addresses: %v, %v", idx, err)
			}
			_, err = s.Create(t.Context(), NewWorkspace{Name: "unfinished"})
			if taken := problem.KindOf(err) == problem.Refused; taken != (whole == 2) || err != nil && !taken {
				t.Errorf("the name again: %v", err)
			}
		})
	}
}

// Open waits for a creation that is under way and does not sweep it.
func TestOpenDuringCreate(t *testing.T) {
	s := newStore(t)
	p := spawn(t, s, "create-until", "content")
	p.begin(t)
	if got := p.line(t); got != "paused" {
		t.Fatalf("the child said %q", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.register(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("the lock while a workspace is made: %v", err)
	}
	opened := make(chan error)
	go func() {
		_, err := Open(s.Root)
		opened <- err
	}()
	p.in.Close() // the child goes on
	if got := p.line(t); got != "ok" {
		t.Errorf("the child said %q", got)
	}
	if err := <-opened; err != nil {
		t.Error(err)
	}
	if got := list(t, s); len(got) != 1 || got[0].Err != nil {
		t.Errorf("List = %q", names(got))
	}
}
