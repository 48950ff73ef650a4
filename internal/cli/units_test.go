package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/problem"
)

func TestAge(t *testing.T) {
	const day = 24 * time.Hour
	for d, want := range map[time.Duration]string{
		0: "less than a second", time.Second: "1 second", 59 * time.Second: "59 seconds", 90 * time.Second: "about a minute",
		5 * time.Minute: "5 minutes", 61 * time.Minute: "about an hour", 3 * time.Hour: "3 hours", 47 * time.Hour: "47 hours",
		2 * day: "2 days", 13 * day: "13 days", 15 * day: "2 weeks", 70 * day: "2 months", 800 * day: "2 years",
	} {
		if got := age(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
	now := time.Now()
	if got := ago(now, now.Add(time.Hour)); got != "less than a second ago" { // a clock that was set back
		t.Errorf("in the future: %q", got)
	}
	if got := ago(now, time.Time{}); got != "-" {
		t.Errorf("never: %q", got)
	}
}

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 1 << 20: "1 MiB", 356 << 20: "356 MiB",
		1<<30 - 1: "1024 MiB", 24 << 30: "24 GiB", 5 << 40: "5 TiB", 3 << 50: "3072 TiB",
	} {
		if got := size(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestParseSize(t *testing.T) {
	for s, want := range map[string]int64{
		"4": 4096, "0.5": 512, "512M": 512, "512mb": 512, "512MiB": 512, "2G": 2048, "2gib": 2048, "1.5GB": 1536, "1T": 1 << 20,
		"": 0, "-1": 0, "0": 0, "x": 0, "G": 0, "1e3": 0, "0x10": 0, "inf": 0, "nan": 0, "1_0": 0, "+1": 0, "8B": 0, "1.2.3": 0,
		"99999999999999999999": 0, "1 G": 0, "4\x00": 0,
	} {
		if got, err := parseSize(s); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %d, %v, want %d", s, got, err, want)
		}
	}
}

func TestShellWord(t *testing.T) {
	for s, want := range map[string]string{"api": "api", "my api": "'my api'", "it's": `'it'\''s'`, "": "''", "$(x)": "'$(x)'", "日本": "'日本'", "a\x1b": `'a\x1b'`} {
		if got := shellWord(s); got != want {
			t.Errorf("%q: %s, want %s", s, got, want)
		}
	}
}

func TestExitCodes(t *testing.T) {
	interrupted, cancel := context.WithCancelCause(context.Background())
	cancel(signalError{syscall.SIGTERM})
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want int
	}{
		{context.Background(), nil, 0},
		{context.Background(), errors.New("x"), 1},
		{context.Background(), problem.New(problem.Missing, "x", ""), 1},
		{context.Background(), problem.New(problem.Usage, "x", ""), 2},
		{context.Background(), fmt.Errorf("x: %w", problem.New(problem.NotFound, "x", "")), 3},
		{context.Background(), problem.New(problem.Refused, "x", ""), 4},
		{context.Background(), problem.New(problem.Denied, "x", ""), 5},
		{context.Background(), problem.New(problem.Unreachable, "x", ""), 6},
		{context.Background(), problem.New(problem.Unverified, "x", ""), 7},
		{context.Background(), exitError(200), 200},
		{context.Background(), signalError{syscall.SIGINT}, 130},
		{interrupted, problem.New(problem.Interrupted, "x", ""), 143},
		{interrupted, exitError(5), 5}, // the program in the guest was quicker
		{interrupted, nil, 0},
	} {
		if got := exitCode(c.ctx, c.err); got != c.want {
			t.Errorf("%v: %d, want %d", c.err, got, c.want)
		}
	}
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	err := table(&b, []string{"A", "NAME", "B"}, [][]string{{"1", "日本語", "x"}, {"22", "👩‍💻", "y\x1b[2J"}, {"3", "", ""}})
	want := "A    NAME     B\n1    日本語   x\n22   👩‍💻       y\\x1b[2J\n3\n"
	if err != nil || b.String() != want {
		t.Errorf("%v\n%s\nwant\n%s", err, b.String(), want)
	}
}

func TestDetachKeySequences(t *testing.T) {
	for s, want := range map[string]string{"": "", "ctrl-p,ctrl-q": "\x10\x11", "ctrl-]": "\x1d", "a,b": "ab", "ctrl-@": "\x00"} {
		if got, err := parseDetachKeys(s); err != nil || string(got) != want {
			t.Errorf("%q: %q, %v", s, got, err)
		}
	}
	for _, s := range []string{",", "ctrl-", "ctrl-P", "ctrl-1", "xy", "ctrl-p,", "\x1b", "é", " "} {
		if got, err := parseDetachKeys(s); err == nil {
			t.Errorf("%q: %q", s, got)
		}
	}
}

func TestDetacher(t *testing.T) {
	for _, c := range []struct {
		keys     string
		in       []string
		want     string
		detached bool
	}{
		{"\x10\x11", []string{"abc"}, "abc", false},
		{"\x10\x11", []string{"ab\x10\x11cd"}, "ab", true},
		{"\x10\x11", []string{"ab\x10", "\x11"}, "ab", true},
		{"\x10\x11", []string{"\x10", "x", "\x10", "\x10", "\x11"}, "\x10x\x10", true},
		{"\x10\x11", []string{"\x11\x10"}, "\x11", false}, // the last one is held
		{"aab", []string{"aaab"}, "a", true},
		{"aab", []string{"a", "a", "c", "aa", "b"}, "aac", true},
		{"abab", []string{"ababab"}, "", true},
		{"abac", []string{"ababac"}, "ab", true},
		{"", []string{"\x10\x11"}, "\x10\x11", false},
	} {
		d := detacher{keys: []byte(c.keys)}
		var got []byte
		detached := false
		for _, in := range c.in {
			var out []byte
			out, detached = d.feed([]byte(in))
			got = append(got, out...)
			if detached {
				break
			}
		}
		if string(got) != c.want || detached != c.detached {
			t.Errorf("%q in %q: %q, %t", c.keys, c.in, got, detached)
		}
	}
}

// FuzzDetacher: without the sequence nothing is lost, however it is cut; with it, everything before it is passed on.
func FuzzDetacher(f *testing.F) {
	f.Add([]byte("ab"), []byte("xxabxx"), 3)
	f.Add([]byte("aab"), []byte("aaaab"), 2)
	f.Fuzz(func(t *testing.T, keys, in []byte, cut int) {
		if len(keys) == 0 || len(keys) > 8 || cut < 1 {
			return
		}
		d := detacher{keys: keys}
		var got []byte
		want, _, found := bytes.Cut(in, keys)
		for rest := in; len(rest) > 0; {
			n := min(cut, len(rest))
			out, detached := d.feed(rest[:n])
			got = append(got, out...)
			rest = rest[n:]
			if detached {
				if !found || !bytes.Equal(got, want) {
					t.Errorf("%q in %q: detached after %q", keys, in, got)
				}
				return
			}
		}
		if got = append(got, d.flush()...); found || !bytes.Equal(got, in) {
			t.Errorf("%q in %q: not detached, passed on %q", keys, in, got)
		}
	})
}

func TestModes(t *testing.T) {
	for in, want := range map[string]string{
		"hello":                               "",
		"\x1b[?1049h":                         "\x1b[?1049l\x1b[0m",
		"\x1b[?1049h\x1b[?1049l":              "",
		"\x1b[?25l\x1b[?1002;1006h":           "\x1b[?25h\x1b[?1002l\x1b[?1006l\x1b[0m",
		"\x1b[?25h\x1b[?7h":                   "",
		"\x1b[>1u\x1b[>5u\x1b[<u":             "\x1b[<1u\x1b[0m",
		"\x1b[>4;2m":                          "\x1b[>4m\x1b[0m",
		"\x1b[?1049h\x1bc":                    "",
		"\x1b[?2004h\x1b]0;\x1b[?1049h\x07":   "\x1b[?1049l\x1b[?2004l\x1b[0m", // in doubt, undo
		"\x1b[?99999999999999999999h\x1b[?1h": "\x1b[?1l\x1b[0m",
		"\x1b[" + strings.Repeat("1;", 100) + "h\x1b[?47h": "\x1b[?47l\x1b[0m",
		"\x1b[?1\x1b[?9h": "\x1b[?9l\x1b[0m",
		"\x1b[31m\x1b[2J": "",
	} {
		var whole, pieces modeTracker
		whole.see([]byte(in))
		for i := range len(in) {
			pieces.see([]byte{in[i]})
		}
		if got := whole.undo(); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
		if got := pieces.undo(); got != want {
			t.Errorf("%q in pieces: %q, want %q", in, got, want)
		}
	}
}

func FuzzModes(f *testing.F) {
	f.Add([]byte("\x1b[?1049h\x1b[?25l"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var m modeTracker
		m.see(data)
		undo := m.undo()
		if len(undo) > 1000 {
			t.Errorf("%d bytes", len(undo))
		}
		m.see([]byte("\x18" + undo)) // what undoes leaves nothing
		if again := m.undo(); again != "" {
			t.Errorf("%q leaves %q", undo, again)
		}
	})
}

// parse runs a command line up to the options that it makes.
func parse(t *testing.T, args ...string) (run *runOptions, ex *execOptions, cr *wire.Create, v *verbOptions, at *attachOptions, err error) {
	t.Helper()
	a := &app{output: "text"}
	a.Name = "bromure-cli"
	root := newRoot(a)
	for _, group := range root.Commands() {
		switch group.Name() {
		case "vm":
			group.RemoveCommand(group.Commands()...)
			group.AddCommand(
				newRun(a, func(_ context.Context, _ *app, o runOptions) error { run = &o; return nil }),
				newExec(a, func(_ context.Context, _ *app, o execOptions) error { ex = &o; return nil }),
				newAttach(a, func(_ context.Context, _ *app, o attachOptions) error { at = &o; return nil }),
				newStop(a, func(_ context.Context, _ *app, o verbOptions) error { v = &o; return nil }),
				newReboot(a, func(_ context.Context, _ *app, o verbOptions) error { v = &o; return nil }))
		case "workspaces":
			group.RemoveCommand(group.Commands()...)
			group.AddCommand(newCreate(a, func(_ context.Context, _ *app, o wire.Create) error { cr = &o; return nil }))
		}
	}
	root.SetOut(io.Discard)
	root.SetArgs(args)
	err = root.Execute()
	return
}

func TestParsing(t *testing.T) {
	run, _, _, _, _, err := parse(t, "vm", "run", "-d", "w")
	if err != nil || !run.detach || run.ref != "w" || len(run.argv) != 0 {
		t.Errorf("%+v, %v", run, err)
	}
	run, _, _, _, _, err = parse(t, "vm", "run", "w", "-T", "-e", "A=1", "--", "make", "-j", "--help")
	if err != nil || !run.noTTY || strings.Join(run.argv, " ") != "make -j --help" || run.env[0] != "A=1" {
		t.Errorf("%+v, %v", run, err)
	}
	_, ex, _, _, _, err := parse(t, "vm", "exec", "-it", "w", "ls", "-d", "--", "-x")
	if err != nil || !ex.tty || !ex.interactive || strings.Join(ex.argv, " ") != "ls -d -- -x" {
		t.Errorf("%+v, %v", ex, err)
	}
	_, ex, _, _, _, err = parse(t, "vm", "exec", "w", "-w", "/x", "--root", "--", "--", "a")
	if err != nil || ex.dir != "/x" || !ex.root || strings.Join(ex.argv, " ") != "-- a" {
		t.Errorf("%+v, %v", ex, err)
	}
	_, ex, _, _, _, err = parse(t, "vm", "exec", "w", "--help")
	if err != nil || ex != nil {
		t.Errorf("help: %+v, %v", ex, err)
	}
	_, _, cr, _, _, err := parse(t, "ws", "create", "n", "-m", "0.5", "--cpus", "3", "--home", "10", "--image", "i", "--notes", "x")
	if want := (wire.Create{Name: "n", MemoryMiB: 512, CPUs: 3, HomeMiB: 10240, Image: "i", Notes: "x"}); err != nil || *cr != want {
		t.Errorf("%+v, %v", cr, err)
	}
	_, _, _, v, _, err := parse(t, "vm", "stop", "--timeout", "1m", "a", "b")
	if err != nil || v.timeout != time.Minute || len(v.refs) != 2 || v.verb != "stop" {
		t.Errorf("%+v, %v", v, err)
	}
	_, _, _, v, _, err = parse(t, "vm", "reboot", "a", "--hard")
	if err != nil || !v.hard {
		t.Errorf("%+v, %v", v, err)
	}
	_, _, _, _, at, err := parse(t, "vm", "attach", "a")
	if err != nil || at.console != "main" || at.keys != defaultDetachKeys {
		t.Errorf("%+v, %v", at, err)
	}
	for _, args := range [][]string{
		{"vm", "exec", "w"}, {"vm", "exec", "--", "w", "x"}, {"vm", "exec", "w", "-z", "x"},
		{"vm", "run", "-rf"}, {"vm", "run", "--", "-rf"}, {"vm", "exec", "../x", "y"}, {"-o", "xml", "vm", "stop", "a"},
		{"vm", "stop", "--timeout", "-1s", "a"}, {"vm", "attach"}, {"ws", "create", "--cpus", "0"}, {"nonsense"}, {"vm", "nonsense"},
	} {
		if _, _, _, _, _, err := parse(t, args...); problem.KindOf(err) != problem.Usage || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// TestEveryCommandHasHelp: a sentence, and examples for what is not obvious.
func TestEveryCommandHasHelp(t *testing.T) {
	a := &app{}
	a.Name = "bromure-cli"
	root := newRoot(a)
	seen := 0
	stack := root.Commands()
	for len(stack) > 0 {
		cmd := stack[0]
		stack = append(stack[1:], cmd.Commands()...)
		seen++
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") {
			t.Errorf("%s: short help %q", cmd.CommandPath(), cmd.Short)
		}
		if strings.Contains(cmd.Example, "NAME ") && !strings.Contains(cmd.Example, "run NAME") {
			t.Errorf("%s: the example has no program name: %s", cmd.CommandPath(), cmd.Example)
		}
	}
	if seen < 25 {
		t.Errorf("only %d commands were found", seen)
	}
}
