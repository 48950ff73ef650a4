package link_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bromure.io/tui/vm/guest"
	"bromure.io/tui/vm/link"
)

// screen collects what a session prints and lets a test wait for a text in it.
type screen struct {
	mu      sync.Mutex
	text    strings.Builder
	ended   bool
	changed sync.Cond
}

func watch(s *link.Session) *screen {
	sc := &screen{}
	sc.changed.L = &sc.mu
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := s.Stdout.Read(buf)
			sc.mu.Lock()
			sc.text.Write(buf[:n])
			sc.ended = err != nil
			sc.changed.Broadcast()
			sc.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return sc
}

// wait waits until the text has what, and returns all of it.
func (sc *screen) wait(t *testing.T, what string) string {
	t.Helper()
	late := false
	timer := time.AfterFunc(10*time.Second, func() {
		sc.mu.Lock()
		defer sc.mu.Unlock()
		late = true
		sc.changed.Broadcast()
	})
	defer timer.Stop()
	sc.mu.Lock()
	defer sc.mu.Unlock()
	for !strings.Contains(sc.text.String(), what) {
		if sc.ended || late {
			t.Fatalf("no %q in %q", what, sc.text.String())
		}
		sc.changed.Wait()
	}
	return sc.text.String()
}

func attach(t *testing.T, l *link.Link, c guest.Console) (*link.Session, *screen) {
	t.Helper()
	s, err := l.Console(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, watch(s)
}

func typeLine(t *testing.T, s *link.Session, line string) {
	t.Helper()
	if _, err := io.WriteString(s.Stdin, line+"\n"); err != nil {
		t.Fatal(err)
	}
}

var plainShell = []string{"/bin/sh", "-c", "PS1= exec sh -i 2>&1"}

func TestConsoleOutlivesItsClient(t *testing.T) {
	g := serve(t)
	l := connect(t, g)
	s, sc := attach(t, l, guest.Console{Name: "work", Size: guest.Size{Cols: 100, Rows: 30}, Argv: plainShell,
		Term: "no-such-terminal", Env: map[string]string{"COLORTERM": "truecolor"}})
	typeLine(t, s, "kept=kept-$((40+2)); echo begin-$kept $TERM $COLORTERM")
	sc.wait(t, "begin-kept-42 xterm-256color truecolor")
	s.Close()
	if _, err := s.Wait(); !errors.Is(err, link.ErrClosed) {
		t.Errorf("wait: %v", err)
	}
	list, err := l.Consoles(t.Context())
	if err != nil || len(list) != 1 || list[0].Name != "work" || list[0].Exited || list[0].Size != (guest.Size{Cols: 100, Rows: 30}) {
		t.Fatalf("consoles %+v, %v", list, err)
	}
	l.Close()

	// Another connection finds the same shell, and what it printed.
	l = connect(t, g)
	s, sc = attach(t, l, guest.Console{Name: "work", Size: guest.Size{Cols: 100, Rows: 30}})
	sc.wait(t, "begin-kept-42")
	typeLine(t, s, "echo again-$kept; exit 3")
	sc.wait(t, "again-kept-42")
	if exit, err := s.Wait(); err != nil || exit.Code != 3 {
		t.Errorf("exit %+v, %v", exit, err)
	}
	if list, err := l.Consoles(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("consoles after the end: %+v, %v", list, err)
	}
}

func TestConsoleTwoClients(t *testing.T) {
	g := serve(t)
	one, two := connect(t, g), connect(t, g)
	a, sca := attach(t, one, guest.Console{Size: guest.Size{Cols: 100, Rows: 30}, Argv: plainShell})
	typeLine(t, a, "echo from-$((1))")
	sca.wait(t, "from-1\r\n")
	b, scb := attach(t, two, guest.Console{Size: guest.Size{Cols: 80, Rows: 24}})
	typeLine(t, b, "echo from-$((1+1)); stty size")
	sca.wait(t, "from-2\r\n24 80\r\n") // the one in use decides about the size
	scb.wait(t, "from-2\r\n24 80\r\n")
	typeLine(t, a, "stty size")
	scb.wait(t, "30 100\r\n")
	a.Close()
	typeLine(t, b, "exit 4")
	if exit, err := b.Wait(); err != nil || exit.Code != 4 {
		t.Errorf("exit %+v, %v", exit, err)
	}
}

// Nobody was there when it ended: the next one reads how.
func TestConsoleEndUnseen(t *testing.T) {
	g := serve(t)
	l := connect(t, g)
	s, sc := attach(t, l, guest.Console{Name: "job", Argv: []string{"/bin/sh", "-c",
		"echo started; read x; while [ ! -e go ]; do sleep 0.02; done; echo $x; exit 6"}})
	sc.wait(t, "started")
	typeLine(t, s, "re''sult") // what was typed before the client left counts
	s.Close()
	until := func(what string, ok func(guest.ConsoleInfo) bool) {
		for deadline := time.Now().Add(10 * time.Second); ; {
			list, err := l.Consoles(t.Context())
			if err != nil || len(list) != 1 || time.Now().After(deadline) {
				t.Fatalf("not %s: %+v, %v", what, list, err)
			}
			if ok(list[0]) {
				return
			}
		}
	}
	until("detached", func(i guest.ConsoleInfo) bool { return i.Attached == 0 })
	if err := os.WriteFile(filepath.Join(g.home, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	until("exited", func(i guest.ConsoleInfo) bool { return i.Exited })
	s, sc = attach(t, l, guest.Console{Name: "job"})
	sc.wait(t, "re''sult\r\nre''sult\r\n")
	if exit, err := s.Wait(); err != nil || exit.Code != 6 {
		t.Errorf("exit %+v, %v", exit, err)
	}
	if list, err := l.Consoles(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("consoles after its end was seen: %+v, %v", list, err)
	}
}

func TestConsoleThatCannotStart(t *testing.T) {
	l := connect(t, serve(t))
	s, _ := attach(t, l, guest.Console{Name: "x", Argv: []string{"no-such-program"}})
	exit, err := s.Wait()
	if e, ok := errors.AsType[*link.StartError](err); !ok || exit.Code != 127 || e.Code != 127 {
		t.Errorf("%+v, %v", exit, err)
	}
	for _, name := range []string{"a/b", "a\nb", strings.Repeat("x", 65), "\xff"} {
		if s, err := l.Console(t.Context(), guest.Console{Name: name}); err == nil {
			s.Close()
			t.Errorf("console %q was made", name)
		}
	}
}

func TestConsoleSignal(t *testing.T) {
	l := connect(t, serve(t))
	s, sc := attach(t, l, guest.Console{Argv: []string{"/bin/sh", "-c", "trap 'echo got-it; exit 1' TERM; echo ready; while :; do sleep 0.05; done"}})
	sc.wait(t, "ready")
	if err := s.Signal("TERM"); err != nil {
		t.Fatal(err)
	}
	sc.wait(t, "got-it")
}
