package cli_test

import (
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestTerminalIsRestored: a shell around the command reads the terminal's settings before and after it.
func TestTerminalIsRestored(t *testing.T) {
	p := newPlace(t)
	p.running()
	for _, c := range []struct {
		name, command string
		during        func(*person, int)
		code          int
	}{
		{"detach", "bromure-cli vm attach w", func(w *person, _ int) {
			w.types("echo he\"\"re\r")
			w.sees("here")
			w.types("\x10\x11")
		}, 0},
		{"exit", "bromure-cli vm exec w -- sh -c 'echo he\"\"re; exit 9'", func(w *person, _ int) { w.sees("here") }, 9},
		{"signal", "bromure-cli vm exec w -- sh -c 'echo he\"\"re; sleep 1000'", func(w *person, pid int) {
			w.sees("here")
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}, 143},
		{"ignored signals", `bromure-cli vm exec w -- sh -c 'trap "echo no" TERM; echo he""re; while :; do sleep 0.02; done'`, func(w *person, pid int) {
			w.sees("here")
			for range 2 {
				_ = syscall.Kill(pid, syscall.SIGTERM)
				w.sees("no")
			}
			_ = syscall.Kill(pid, syscall.SIGTERM) // the third says: now
		}, 143},
		{"refused", "bromure-cli vm attach none", func(w *person, _ int) { w.sees("no workspace called") }, 3},
		{"panic", "panics", func(w *person, _ int) { w.sees("goroutine") }, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := *p
			p.t = t
			w := p.sitAt(80, 24, "sh", "-c", fmt.Sprintf("echo FIRST $(stty -g) END; sh -c 'echo PID $$ END; exec \"$@\"' sh %s; echo CODE $? SECOND $(stty -g) END", c.command))
			w.sees("FIRST ")
			first := w.sees(" END")
			w.sees("PID ")
			pid, err := strconv.Atoi(w.sees(" END"))
			if err != nil {
				t.Fatal(err)
			}
			c.during(w, pid)
			w.sees("CODE ")
			if got := w.sees(" SECOND "); got != strconv.Itoa(c.code) {
				t.Errorf("exit %s, want %d", got, c.code)
			}
			if second := w.sees(" END"); second != first {
				t.Errorf("the terminal was %s and is %s", first, second)
			}
			w.leaves()
		})
	}
}

// TestDaemonGoneWhileAttached: the front says so, ends with its code, and the terminal is as it was.
func TestDaemonGoneWhileAttached(t *testing.T) {
	p := newPlace(t)
	p.running()
	w := p.sitAt(80, 24, "sh", "-c", "echo FIRST $(stty -g) END; bromure-cli vm attach w; echo CODE $? SECOND $(stty -g) END")
	w.sees("FIRST ")
	first := w.sees(" END")
	// The alternate screen, mouse reports and a hidden cursor stuck, when the connection breaks.
	w.types("printf '\\033[?1049h\\033[?1002;1006h\\033[?25l'; echo he\"\"re\r")
	w.sees("here")
	pid, err := strconv.Atoi(strings.TrimSpace(p.ok("daemon", "status", "-q")))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	w.sees("\x1b[?25h\x1b[?1002l\x1b[?1006l\x1b[?1049l\x1b[0m")
	w.sees("the daemon went away in the middle")
	w.sees("CODE 6 SECOND ")
	if second := w.sees(" END"); second != first {
		t.Errorf("the terminal was %s and is %s", first, second)
	}
	w.leaves()
}

// TestStopAndGoOn: stopped from outside, the terminal is the shell's; afterwards it is raw again and its size is sent.
func TestStopAndGoOn(t *testing.T) {
	p := newPlace(t)
	p.running()
	w := p.sitAt(80, 24, "bromure-cli", "vm", "attach", "w")
	w.types("stty -echo; echo he\"\"re\r")
	w.sees("here")
	pid := w.cmd.Process.Pid
	if err := syscall.Kill(pid, syscall.SIGTSTP); err != nil {
		t.Fatal(err)
	}
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &ws, syscall.WUNTRACED, nil); err != nil || !ws.Stopped() {
		t.Fatalf("it is not stopped: %v %v", ws, err)
	}
	w.resizes(100, 40)
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	w.types("until [ \"$(stty size)\" = '40 100' ]; do :; done; echo re\"\"sized\r")
	w.sees("resized")
	w.types("\x10\x11") // raw: the line discipline would wait for a return
	w.sees("detached")
	w.leaves()
}
