package ui

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/creack/pty"

	"bromure.io/tui/internal/control"
)

// TestMain is also the front that the tests of this file run in a terminal.
func TestMain(m *testing.M) {
	if how := os.Getenv("TEST_FRONT"); how != "" {
		calls := 0
		connect := func(ctx context.Context) (*control.Client, error) {
			switch how {
			case "panics": // in a command, as every goroutine of the front is; the first time the screen is not up yet
				if calls++; calls > 1 {
					panic("a bug in a goroutine")
				}
			case "waits":
				<-ctx.Done()
			}
			return nil, errNoDaemon
		}
		if err := Run(context.Background(), connect, os.Stdin, os.Stdout, os.Getenv); err != nil {
			if !errors.Is(err, tea.ErrProgramPanic) {
				os.Stderr.WriteString(err.Error())
			}
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// inTerminal runs the front under a shell in a pty, types keys, and returns its output with the terminal's settings before and after.
func inTerminal(t *testing.T, how, keys string) (out, before, after string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `stty -a; echo =====; "$0"; echo "exit $?"; echo =====; stty -a`, self)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "TERM_PROGRAM=") }), "TEST_FRONT="+how, "TERM=xterm-256color", "LC_ALL=C.UTF-8")
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: 80, Rows: 24})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all bytes.Buffer
	buf := make([]byte, 4096)
	typed := keys == ""
	for {
		n, err := f.Read(buf)
		all.Write(buf[:n])
		if !typed && bytes.Contains(all.Bytes(), []byte("Asking")) { // the first frame is there
			typed = true
			if _, err := io.WriteString(f, keys); err != nil {
				t.Fatal(err)
			}
		}
		if err != nil {
			break
		}
	}
	_ = cmd.Wait()
	parts := strings.Split(all.String(), "=====")
	if len(parts) != 3 {
		t.Fatalf("%d parts in %q", len(parts), all.String())
	}
	return parts[1], strings.TrimSpace(parts[0]), strings.TrimSpace(parts[2])
}

// TestPanicRestoresTheTerminal is field case F66.
func TestPanicRestoresTheTerminal(t *testing.T) {
	out, before, after := inTerminal(t, "panics", "")
	if before != after {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
	for _, want := range []string{"\x1b[?1049l", "\x1b[?25h", "\x1b[?2004l", "a bug in a goroutine", "exit 1"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in %q", want, out)
		}
	}
	if strings.LastIndex(out, "\x1b[?1049l") < strings.LastIndex(out, "\x1b[?1049h") {
		t.Error("it ends on the alternate screen")
	}
}

func TestQuitRestoresTheTerminal(t *testing.T) {
	out, before, after := inTerminal(t, "waits", "q")
	if before != after {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
	for _, want := range []string{"\x1b[?1049l", "\x1b[?25h", "exit 0"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in %q", want, out)
		}
	}
}
