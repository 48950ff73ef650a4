package cli_test

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// patience is how long a test waits for a fact before it gives up.
const patience = 15 * time.Second

// place is a data root with a daemon of its own.
type place struct {
	t   *testing.T
	env []string
}

func newPlace(t *testing.T) *place {
	t.Helper()
	t.Parallel()                       // these tests wait more than they work
	dir, err := os.MkdirTemp("", "br") // short: it gets a socket
	if err != nil {
		t.Fatal(err)
	}
	home, run := dir+"/home", dir+"/run"
	if err := os.Mkdir(run, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stopDaemon(home, run); os.RemoveAll(dir) })
	return &place{t, append(os.Environ(), "BROMURE_HOME="+home, "XDG_RUNTIME_DIR="+run, "TERM=xterm", "PS1=$ ")}
}

func (p *place) cmd(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = p.env
	return cmd
}

func (p *place) ok(args ...string) string {
	p.t.Helper()
	out, err := p.cmd("bromure-cli", args...).Output()
	if err != nil {
		if e, ok := err.(*exec.ExitError); ok {
			p.t.Fatalf("bromure-cli %q: %v: %s", args, err, e.Stderr)
		}
		p.t.Fatal(err)
	}
	return string(out)
}

// running makes a running workspace called w.
func (p *place) running() {
	p.t.Helper()
	p.ok("workspaces", "create", "--name", "w")
	p.ok("vm", "run", "-d", "w")
}

// person sits at a terminal: what was printed, and a way to type.
type person struct {
	t   *testing.T
	f   *os.File
	cmd *exec.Cmd

	mu   sync.Mutex
	more sync.Cond
	text string
	eof  bool
}

func (p *place) sitAt(cols, rows uint16, name string, args ...string) *person {
	p.t.Helper()
	cmd := p.cmd(name, args...)
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: cols, Rows: rows})
	if err != nil {
		p.t.Fatal(err)
	}
	who := &person{t: p.t, f: f, cmd: cmd}
	who.more.L = &who.mu
	p.t.Cleanup(func() { f.Close() })
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := f.Read(buf)
			who.mu.Lock()
			who.text += string(buf[:n])
			who.eof = err != nil
			who.mu.Unlock()
			who.more.Broadcast()
			if err != nil {
				return
			}
		}
	}()
	return who
}

func (w *person) types(s string) {
	w.t.Helper()
	if _, err := w.f.WriteString(s); err != nil {
		w.t.Fatal(err)
	}
}

// sees waits until want is printed, and takes everything up to it as read.
func (w *person) sees(want string) (before string) {
	w.t.Helper()
	late := false
	timer := time.AfterFunc(patience, func() {
		w.mu.Lock()
		late = true
		w.mu.Unlock()
		w.more.Broadcast()
	})
	defer timer.Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		if before, after, ok := strings.Cut(w.text, want); ok {
			w.text = after
			return before
		}
		if w.eof || late {
			w.t.Fatalf("%q was not printed (at the end: %t) in %q", want, w.eof, w.text)
		}
		w.more.Wait()
	}
}

// leaves waits for the program's end and returns its exit code.
func (w *person) leaves() int {
	w.t.Helper()
	timer := time.AfterFunc(patience, func() { _ = w.cmd.Process.Kill() })
	defer timer.Stop()
	_ = w.cmd.Wait()
	return w.cmd.ProcessState.ExitCode()
}

func (w *person) resizes(cols, rows uint16) {
	w.t.Helper()
	if err := pty.Setsize(w.f, &pty.Winsize{Cols: cols, Rows: rows}); err != nil {
		w.t.Fatal(err)
	}
}

func TestAttachResizeDetach(t *testing.T) {
	p := newPlace(t)
	p.running()
	w := p.sitAt(91, 31, "bromure-cli", "vm", "attach", "w")
	w.types("stty size\r")
	w.sees("31 91")
	w.resizes(123, 45)
	// The size arrives some time after the signal: the guest says when.
	w.types("until [ \"$(stty size)\" = '45 123' ]; do :; done; echo re\"\"sized\r")
	w.sees("resized")
	w.types("HELD=state; sh -c 'echo sl\"\"eeps; exec sleep 1000'\r") // in the foreground when it speaks
	w.sees("sleeps")
	w.types("\x03") // a key for the guest
	w.sees("$ ")
	w.types("echo after-$((1+1))\r")
	w.sees("after-2")
	w.types("\x10\x11")
	w.sees("detached; what runs there goes on. Back: bromure-cli vm attach w")
	if code := w.leaves(); code != 0 {
		t.Errorf("after detaching: exit %d", code)
	}
	// The same session, with another size.
	w = p.sitAt(80, 24, "bromure-cli", "vm", "attach", "w")
	w.types("echo $HELD; stty size; exit 5\r")
	w.sees("state\r\n24 80")
	if code := w.leaves(); code != 5 {
		t.Errorf("after exit 5 in the console: exit %d", code)
	}
}

func TestDetachKeys(t *testing.T) {
	p := newPlace(t)
	p.running()
	// One key of the two is passed on when the other does not follow: cat shows it.
	w := p.sitAt(80, 24, "bromure-cli", "vm", "attach", "w", "--console", "one")
	w.sees("$ ") // until then the terminal is not raw, and has a meaning of its own for ctrl-q
	w.types("stty -echo -ixon; echo re\"\"ady; cat -v\r")
	w.sees("ready")
	w.types("\x10")
	w.types("x\r")
	w.sees("^Px")
	w.types("\x10")
	w.types("\x11") // in two pieces
	w.sees("attach --console one w")
	w.leaves()

	w = p.sitAt(80, 24, "bromure-cli", "vm", "attach", "w", "--console", "two", "--detach-keys", "ctrl-],x")
	w.sees("$ ") // until then the terminal is not raw, and has a meaning of its own for ctrl-q
	w.types("stty -echo -ixon; echo re\"\"ady; cat -v\r")
	w.sees("ready")
	w.types("\x10\x11\r")
	w.sees("^P^Q")
	w.types("\x1dx")
	w.sees("detached")
	w.leaves()

	w = p.sitAt(80, 24, "bromure-cli", "vm", "attach", "w", "--console", "three", "--detach-keys", "")
	w.sees("$ ") // until then the terminal is not raw, and has a meaning of its own for ctrl-q
	w.types("stty -echo -ixon; echo re\"\"ady; cat -v\r")
	w.sees("ready")
	w.types("\x10\x11\r")
	w.sees("^P^Q")
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil { // a console is left, not ended
		t.Fatal(err)
	}
	if code := w.leaves(); code != 143 {
		t.Errorf("after SIGTERM: exit %d", code)
	}
	if out := p.ok("workspaces", "describe", "w", "-o", "json"); !strings.Contains(out, `"consoles": 3`) {
		t.Errorf("the consoles are gone:\n%s", out)
	}
}

// TestRunAttaches: without a command, at a terminal, a start leads to the console; a command has a terminal there.
func TestRunAttaches(t *testing.T) {
	p := newPlace(t)
	p.ok("workspaces", "create", "--name", "w")
	w := p.sitAt(80, 24, "bromure-cli", "vm", "run", "w")
	w.sees("$ ")
	w.types("tty; exit 0\r")
	w.sees("/dev/pts/")
	if code := w.leaves(); code != 0 {
		t.Errorf("exit %d", code)
	}
	w = p.sitAt(81, 25, "bromure-cli", "vm", "exec", "w", "--", "sh", "-c", "tty; stty size; echo $TERM; exit 4")
	w.sees("/dev/pts/")
	w.sees("25 81\r\nxterm")
	if code := w.leaves(); code != 4 {
		t.Errorf("exit %d", code)
	}
	w = p.sitAt(80, 24, "bromure-cli", "vm", "exec", "-T", "w", "--", "sh", "-c", "tty; exit 5")
	w.sees("not a tty")
	if code := w.leaves(); code != 5 {
		t.Errorf("exit %d", code)
	}
	p.ok("vm", "stop", "w")
	if out := p.ok("vm", "run", "w"); len(out) != 13 { // no terminal: the ID
		t.Errorf("%q", out)
	}
}
