package console

import (
	"fmt"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// screenOf runs a shell script in a session until it ends, and returns the screen.
func screenOf(t *testing.T, script string, cols, rows int) (*Session, []string) {
	t.Helper()
	s, err := Start("test", []string{"sh", "-c", script}, []string{"PATH=/usr/bin:/bin", "TERM=xterm-256color"}, cols, rows)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	for s.Wait() {
	}
	lines, _, _ := s.View()
	return s, lines
}

// TestNothingOfTheGuestPasses is field case F60: no clipboard, link, title or query of a guest reaches the user's terminal.
func TestNothingOfTheGuestPasses(t *testing.T) {
	_, lines := screenOf(t, `printf '\033]52;c;aGk=\a\033]0;title\a\033]8;;file:///etc/passwd\alink\033]8;;\a \033[31mred\033[m \302\233 \033[2J\033[Hend\n'`, 40, 4)
	all := strings.Join(lines, "\n")
	for _, bad := range []string{"\x1b]", "\a", "passwd", "\u009b"} {
		if strings.Contains(all, bad) {
			t.Errorf("%q in %q", bad, all)
		}
	}
	if !strings.Contains(all, "end") {
		t.Errorf("the text is missing: %q", all)
	}
}

// TestReplies is the other half of F60: a guest is told where its cursor is, and no text that somebody chose.
func TestReplies(t *testing.T) {
	for in, want := range map[string]string{
		"\x1b[3;4R":                        "\x1b[3;4R",
		"\x1b[?62;22c":                     "\x1b[?62;22c",
		"\x1b]52;c;aGk=\x07":               "",
		"\x1b]ltitle\x1b\\\x1b[0n":         "\x1b[0n",
		"\x1bP!|rm -rf\x1b\\":              "",
		"\x1b]10;rgb:0000/0000/0000\x07ls": "",
		"ls\r":                             "",
		"\x1b[200~":                        "",
	} {
		if got := string(allowed([]byte(in))); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	s, err := Start("test", []string{"sh", "-c", `stty raw -echo; printf '\033[6n'; dd bs=1 count=6 2>/dev/null | od -c | head -1; printf 'done\r\n'`}, []string{"PATH=/usr/bin:/bin"}, 60, 4)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	for s.Wait() {
	}
	lines, _, _ := s.View()
	if all := strings.Join(lines, "\n"); !strings.Contains(all, "033") || !strings.Contains(all, "R") || !strings.Contains(all, "done") {
		t.Errorf("the guest got no report of its cursor: %q", all)
	}
}

// TestWideCells is field case F62 in the panel: every line is as wide as the panel, and no character is halved.
func TestWideCells(t *testing.T) {
	_, lines := screenOf(t, `printf '123456789表\n⏰ Emoji é 👨‍👩‍👧 🇬🇧 👍🏽 ☁ ☁️\n'`, 10, 8)
	for i, l := range lines {
		if w := ansi.StringWidth(l); w != 10 {
			t.Errorf("line %d has %d cells: %q", i, w, l)
		}
	}
}

func TestKeys(t *testing.T) {
	for _, c := range []struct {
		key  tea.Key
		want string
	}{
		{tea.Key{Code: 'a', Text: "a"}, "a"},
		{tea.Key{Code: 'c', Mod: tea.ModCtrl}, "\x03"},
		{tea.Key{Code: '[', Mod: tea.ModCtrl}, "\x1b"},
		{tea.Key{Code: 'x', Mod: tea.ModAlt}, "\x1bx"},
		{tea.Key{Code: tea.KeyEnter}, "\r"},
		{tea.Key{Code: tea.KeyTab, Mod: tea.ModShift}, "\x1b[Z"},
		{tea.Key{Code: tea.KeyUp}, "\x1b[A"},
		{tea.Key{Code: tea.KeyRight, Mod: tea.ModCtrl}, "\x1b[1;5C"},
		{tea.Key{Code: tea.KeyLeft, Mod: tea.ModCtrl | tea.ModShift}, "\x1b[1;6D"},
		{tea.Key{Code: tea.KeyDelete}, "\x1b[3~"},
		{tea.Key{Code: tea.KeyF1}, "\x1bOP"},
		{tea.Key{Code: tea.KeyF12, Mod: tea.ModShift}, "\x1b[24;2~"},
		{tea.Key{Code: tea.KeyBackspace}, "\x7f"},
		{tea.Key{Code: tea.KeySpace, Mod: tea.ModCtrl}, "\x00"},
		{tea.Key{Code: tea.KeyCapsLock}, ""},
	} {
		if got := string(encodeKey(c.key, false)); got != c.want {
			t.Errorf("%v: %q, want %q", c.key, got, c.want)
		}
	}
	if got := string(encodeKey(tea.Key{Code: tea.KeyUp}, true)); got != "\x1bOA" {
		t.Errorf("up with cursor keys on: %q", got)
	}
}

func TestPaste(t *testing.T) {
	for _, c := range []struct {
		text      string
		bracketed bool
		want      string
	}{
		{"ls\nrm\r\n", false, "ls\rrm\r"},
		{"ls\n", true, "\x1b[200~ls\r\x1b[201~"},
		{"a\x1b[201~rm -rf ~\n", true, "\x1b[200~arm -rf ~\r\x1b[201~"},
		{"a\x1b[20\x1b[201~1~b\x03\u009b201~", true, "\x1b[200~a[201~b201~\x1b[201~"},
	} {
		if got := string(encodePaste(c.text, c.bracketed)); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}

func TestScrollback(t *testing.T) {
	s, _ := screenOf(t, "seq 1 100", 20, 5)
	s.Scroll(50)
	lines, back, cursor := s.View()
	if back != 50 || cursor != nil {
		t.Errorf("%d lines back, cursor %v", back, cursor)
	}
	first := strings.TrimSpace(ansi.Strip(lines[0]))
	if want := fmt.Sprint(100 - 3 - 50); first != want {
		t.Errorf("the first line is %q, want %q", first, want)
	}
	s.Scroll(1000)
	if lines, _, _ := s.View(); strings.TrimSpace(ansi.Strip(lines[0])) != "1" {
		t.Errorf("the oldest line is %q", lines[0])
	}
}

// TestPanicComesOutOfWait: what goes wrong in a goroutine of a session reaches the front's guard.
func TestPanicComesOutOfWait(t *testing.T) {
	s := &Session{dirty: make(chan struct{}, 1)}
	go s.guard(func() { panic("a bug") })
	defer func() {
		if r := recover(); r != "a bug" {
			t.Errorf("recovered %v", r)
		}
	}()
	s.Wait()
	t.Error("Wait returned")
}
