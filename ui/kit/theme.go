package kit

import (
	"image/color"
	"strings"

	"charm.land/lipgloss/v2"
)

// Mode is a family of colours.
type Mode string

const (
	Dark     Mode = "dark"
	Light    Mode = "light"
	NoColor  Mode = "no-colour"
	Contrast Mode = "high-contrast"
)

// Theme is what tokens look like: one accent, one colour of danger, text in two strengths. Colour never says anything
// alone; a glyph or a word says it too.
type Theme struct {
	Mode Mode

	Text, Dim, Title     Ink
	Accent, Danger, Warn Ink
	Good                 Ink
	Selected             Ink // a row under the cursor
	Alarm                Ink // a mark that cannot be overlooked
	Key                  Ink // a key in the footer
	Border, Focus        Ink // of boxes; of the one that has the keys

	Glyph Glyphs
}

// Glyphs are the signs that a theme draws with.
type Glyphs struct {
	Running, Busy, Off, Broken, Marked string
	Bar, Dot                           string
	Spark                              []string
	Up, Down                           string
	TopLeft, Top, TopRight             string
	Side, BottomLeft, BottomRight      string
	TeeLeft, TeeRight                  string
}

var unicodeGlyphs = Glyphs{
	Running: "●", Busy: "◌", Off: "○", Broken: "✗", Marked: "▲",
	Bar: "▌", Dot: "·", Spark: []string{"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}, Up: "↑", Down: "↓",
	TopLeft: "╭", Top: "─", TopRight: "╮", Side: "│", BottomLeft: "╰", BottomRight: "╯", TeeLeft: "├", TeeRight: "┤",
}

// plainGlyphs are for terminals with a few hundred characters, like the Linux console.
var plainGlyphs = Glyphs{
	Running: "*", Busy: "~", Off: "-", Broken: "x", Marked: "!",
	Bar: ">", Dot: "-", Spark: []string{"_", ".", ":", "-", "=", "+", "#", "#"}, Up: "^", Down: "v",
	TopLeft: "+", Top: "-", TopRight: "+", Side: "|", BottomLeft: "+", BottomRight: "+", TeeLeft: "+", TeeRight: "+",
}

// tokens are colours of the palette of 256: each of their sequences is half as long as that of an exact colour, and a frame has
// hundreds. Text has the terminal's own colour.
type tokens struct{ dim, accent, danger, warn, good, selected, border color.Color }

var palettes = map[Mode]tokens{
	Dark: {
		dim: lipgloss.Color("246"), accent: lipgloss.Color("111"), danger: lipgloss.Color("210"), warn: lipgloss.Color("179"),
		good: lipgloss.Color("114"), selected: lipgloss.Color("237"), border: lipgloss.Color("240"),
	},
	Light: {
		dim: lipgloss.Color("241"), accent: lipgloss.Color("25"), danger: lipgloss.Color("124"), warn: lipgloss.Color("94"),
		good: lipgloss.Color("22"), selected: lipgloss.Color("153"), border: lipgloss.Color("248"),
	},
	Contrast: {
		dim: lipgloss.NoColor{}, accent: lipgloss.Color("14"), danger: lipgloss.Color("9"), warn: lipgloss.Color("11"),
		good: lipgloss.Color("10"), selected: lipgloss.Color("4"), border: lipgloss.NoColor{},
	},
}

// NewTheme makes a theme; plain draws with ASCII.
func NewTheme(mode Mode, plain bool) *Theme {
	t := &Theme{Mode: mode, Glyph: unicodeGlyphs}
	if plain {
		t.Glyph = plainGlyphs
	}
	s := lipgloss.NewStyle()
	p, colours := palettes[mode]
	if !colours {
		t.Mode = NoColor
		t.Text, t.Dim, t.Title = ink(s), ink(s.Faint(true)), ink(s.Bold(true))
		t.Accent, t.Danger, t.Warn, t.Good = ink(s.Bold(true)), ink(s.Bold(true)), ink(s.Bold(true)), ink(s)
		t.Selected, t.Alarm, t.Key = ink(s.Reverse(true)), ink(s.Bold(true).Reverse(true)), ink(s.Bold(true))
		t.Border, t.Focus = ink(s.Faint(true)), ink(s.Bold(true))
		return t
	}
	t.Text, t.Dim, t.Title = ink(s), ink(s.Foreground(p.dim)), ink(s.Bold(true))
	t.Accent, t.Danger = ink(s.Foreground(p.accent)), ink(s.Foreground(p.danger))
	t.Warn, t.Good = ink(s.Foreground(p.warn)), ink(s.Foreground(p.good))
	t.Selected, t.Alarm, t.Key = ink(s.Background(p.selected).Bold(true)), ink(s.Foreground(p.danger).Bold(true).Reverse(true)), ink(s.Foreground(p.accent).Bold(true))
	t.Border, t.Focus = ink(s.Foreground(p.border)), ink(s.Foreground(p.accent))
	return t
}

// ModeFrom reads the environment: BROMURE_THEME (dark, light, none, high-contrast), NO_COLOR (no-color.org) and TERM. dark is what
// is known of the terminal's background.
func ModeFrom(getenv func(string) string, dark bool) Mode {
	switch strings.ToLower(getenv("BROMURE_THEME")) {
	case "dark":
		return Dark
	case "light":
		return Light
	case "none", "no-colour", "no-color":
		return NoColor
	case "high-contrast", "contrast":
		return Contrast
	}
	switch {
	case getenv("NO_COLOR") != "", getenv("TERM") == "dumb":
		return NoColor
	case dark:
		return Dark
	}
	return Light
}

// PlainGlyphs says whether the terminal can be expected to draw ASCII only.
func PlainGlyphs(getenv func(string) string) bool {
	if getenv("TERM") == "linux" {
		return true
	}
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := getenv(name); v != "" {
			v = strings.ToLower(v)
			return !strings.Contains(v, "utf-8") && !strings.Contains(v, "utf8")
		}
	}
	return false
}
