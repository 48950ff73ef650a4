package console

import (
	"strings"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/ansi"

	"bromure.io/tui/internal/printable"
)

// draw is the screen in lines of exactly cols cells, scrolled back by some lines. Only colours and attributes are passed on: no
// link, no title and no control character of the guest reaches the user's terminal.
func draw(e Emulator, cols, rows, back int) []string {
	out := make([]string, rows)
	var b strings.Builder
	for y := range rows {
		b.Reset()
		var pen uv.Style
		for x := 0; x < cols; {
			c := e.Cell(x, y-back)
			text, width, style := " ", 1, uv.Style{}
			if c != nil {
				style = c.Style
				if w := c.Width; w > 0 && x+w <= cols {
					text, width = shown(c.Content, w)
				}
			}
			if !style.Equal(&pen) {
				b.WriteString(style.Diff(&pen))
				pen = style
			}
			b.WriteString(text)
			x += width
		}
		if !pen.IsZero() {
			b.WriteString(ansi.ResetStyle)
		}
		out[y] = b.String()
	}
	return out
}

// shown is the text of a cell, if it is what it claims to be: printable, and as wide as the cell.
func shown(content string, width int) (string, int) {
	if content == "" {
		return strings.Repeat(" ", width), width
	}
	if len(content) == 1 && content[0] >= 0x20 && content[0] < 0x7f && width == 1 {
		return content, 1
	}
	if printable.Line(content) != content || ansi.StringWidth(content) != width {
		return strings.Repeat("?", width), width
	}
	return content, width
}
