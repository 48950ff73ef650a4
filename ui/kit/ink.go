package kit

import (
	"strings"

	"charm.land/lipgloss/v2"
)

// Ink is a style as the sequences around a text. Lip Gloss works a style out anew for each piece of text, and a frame has
// thousands of pieces.
type Ink struct {
	style   lipgloss.Style
	on, off string
}

func ink(s lipgloss.Style) Ink {
	on, off, _ := strings.Cut(s.Render("x"), "x")
	return Ink{style: s, on: on, off: off}
}

// Render is the text in this style. It must be one line.
func (i Ink) Render(s string) string {
	if s == "" {
		return ""
	}
	return i.on + s + i.off
}

// Bold is the style in bold.
func (i Ink) Bold() Ink { return ink(i.style.Bold(true)) }

// Reverse is the style with foreground and background exchanged.
func (i Ink) Reverse() Ink { return ink(i.style.Reverse(true)) }

// Over is the style with what it leaves open taken from another.
func (i Ink) Over(below Ink) Ink { return ink(i.style.Inherit(below.style)) }
