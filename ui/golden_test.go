package ui

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"bromure.io/tui/ui/kit"
)

var update = flag.Bool("update", false, "write the golden frames anew")

var sizes = []kit.Size{{W: 40, H: 12}, {W: 80, H: 24}, {W: 120, H: 40}, {W: 200, H: 60}}

// TestGoldenFrames compares every scene at every size without colour; dark, light and high contrast have to say the same
// text at every size, and their colours are compared at 80x24.
func TestGoldenFrames(t *testing.T) {
	for _, sc := range scenes {
		for _, size := range sizes {
			var plain string
			for _, mode := range []kit.Mode{kit.NoColor, kit.Dark, kit.Light, kit.Contrast} {
				m := fixed(size, mode)
				sc.set(t, m)
				frame := m.View().Content
				checkFrame(t, sc.name, frame, size)
				name := fmt.Sprintf("%s/%dx%d", sc.name, size.W, size.H)
				switch {
				case mode == kit.NoColor:
					plain = ansi.Strip(frame)
					golden(t, name+".txt", plain)
				case ansi.Strip(frame) != plain:
					t.Errorf("%s: %s says something else than without colour:\n%s", name, mode, cmp.Diff(plain, ansi.Strip(frame)))
				}
				if size.W == 80 && mode != kit.Contrast {
					golden(t, name+"."+string(mode), frame)
				}
			}
		}
	}
	for _, size := range sizes {
		for _, focused := range []bool{true, false} {
			m := fixed(size, kit.NoColor)
			f := withConsole(m, focused)
			frame := m.content(f)
			checkFrame(t, "console", frame, size)
			golden(t, fmt.Sprintf("console-%v/%dx%d.txt", focused, size.W, size.H), ansi.Strip(frame))
		}
	}
}

// checkFrame holds what is true of every frame: its size, and that nothing in it acts on the terminal but colours do.
func checkFrame(t *testing.T, name, frame string, size kit.Size) {
	t.Helper()
	lines := strings.Split(frame, "\n")
	if len(lines) != size.H {
		t.Errorf("%s at %v: %d lines", name, size, len(lines))
	}
	for i, l := range lines {
		if w := kit.Width(l); w != size.W {
			t.Errorf("%s at %v: line %d has %d cells: %q", name, size, i, w, l)
		}
	}
	onlyColours(t, name, frame)
}

func onlyColours(t *testing.T, name, frame string) {
	t.Helper()
	for i := 0; i < len(frame); i++ {
		if frame[i] != 0x1b {
			continue
		}
		end := i + 2
		for end < len(frame) && (frame[end] < 0x40 || frame[end] > 0x7e) {
			end++
		}
		if i+1 >= len(frame) || frame[i+1] != '[' || end >= len(frame) || frame[end] != 'm' {
			t.Fatalf("%s: a sequence that is no colour: %q", name, frame[i:min(len(frame), i+20)])
		}
	}
	for _, r := range ansi.Strip(frame) {
		if r < 0x20 && r != '\n' || r >= 0x7f && r <= 0x9f || r == '\u202e' {
			t.Fatalf("%s: control character %q in a frame", name, r)
		}
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; `go test ./ui -update` writes it", err)
	}
	if diff := cmp.Diff(strings.TrimSuffix(string(want), "\n"), got); diff != "" {
		t.Errorf("%s differs (`go test ./ui -update` takes the new one):\n%s", name, diff)
	}
}

// TestSizes is field case F67: no size crashes a screen or a dialog, no line is wider than the terminal, and after
// growth the selection is what it was.
func TestSizes(t *testing.T) {
	var all []kit.Size
	for _, s := range []kit.Size{{W: 0, H: 0}, {W: 1, H: 1}, {W: 2, H: 1}, {W: 10, H: 3}, {W: 3, H: 40}, {W: 80, H: 1}, {W: 80, H: 3}, {W: 20, H: 5}, {W: 21, H: 6}, {W: 59, H: 9}, {W: 60, H: 8}, {W: 200, H: 60}} {
		all = append(all, s)
	}
	for w := range 30 {
		all = append(all, kit.Size{W: w, H: w / 3})
	}
	for _, sc := range scenes {
		m := fixed(kit.Size{W: 80, H: 24}, kit.Dark)
		sc.set(t, m)
		selected, before := m.main.Selected(), m.View().Content
		for _, s := range all {
			m.resize(s)
			frame := m.View().Content
			if s.W == 0 || s.H == 0 {
				continue
			}
			if n := strings.Count(frame, "\n") + 1; n > s.H {
				t.Errorf("%s at %v: %d lines", sc.name, s, n)
			}
			for l := range strings.SplitSeq(frame, "\n") {
				if kit.Width(l) > s.W {
					t.Errorf("%s at %v: a line of %d cells: %q", sc.name, s, kit.Width(l), l)
				}
			}
		}
		m.resize(kit.Size{W: 80, H: 24})
		if m.main.Selected() != selected || m.View().Content != before {
			t.Errorf("%s: another screen after growing back", sc.name)
		}
	}
}
