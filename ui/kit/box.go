package kit

import "strings"

// Box draws a frame around lines: exactly w by h cells, with a title at the left and one at the right of the upper edge and a
// foot at the right of the lower one. The titles are styled already.
type Box struct {
	Title, Right, Foot string
	Focus              bool
}

// Draw draws it. An area too small for a frame gets the lines alone.
func (b Box) Draw(t *Theme, lines []string, w, h int) []string {
	if w < 4 || h < 3 {
		return Block(lines, w, h)
	}
	lines = Block(lines, w-4, h-2)
	for i, l := range lines {
		lines[i] = " " + l + " "
	}
	return b.DrawFlush(t, lines, w, h)
}

// Inner is the room inside a box of that size.
func Inner(w, h int) Size { return Size{max(0, w-4), max(0, h-2)} }

// edge is an upper or lower edge with its titles in it; the one at the right goes first when both do not fit.
func (b Box) edge(t *Theme, left, right, title, end string, w int) string {
	style := t.Border
	if b.Focus {
		style = t.Focus
	}
	room := w - 2
	if title != "" {
		title = " " + clip(title, room-3) + " "
	}
	if end != "" {
		end = " " + end + " "
	}
	if Width(title)+Width(end)+2 > room {
		end = ""
	}
	if end != "" {
		end += style.Render(t.Glyph.Top)
	}
	fill := strings.Repeat(t.Glyph.Top, max(0, room-Width(title)-Width(end)))
	return style.Render(left) + title + style.Render(fill) + end + style.Render(right)
}

func clip(styled string, w int) string {
	if Width(styled) <= w {
		return styled
	}
	return strings.TrimRight(Pad(styled, w), " ")
}

// Beside joins two blocks of equally many lines.
func Beside(a, b []string) []string {
	out := make([]string, 0, len(a))
	for i := range a {
		if i < len(b) {
			out = append(out, a[i]+b[i])
		} else {
			out = append(out, a[i])
		}
	}
	return out
}

// DrawFlush is [Box.Draw] without the space between the frame and the lines, for rows that are marked up to the edge.
func (b Box) DrawFlush(t *Theme, lines []string, w, h int) []string {
	if w < 4 || h < 3 {
		return Block(lines, w, h)
	}
	edge := t.Border
	if b.Focus {
		edge = t.Focus
	}
	g := t.Glyph
	side := edge.Render(g.Side)
	out := []string{b.edge(t, g.TopLeft, g.TopRight, b.Title, b.Right, w)}
	for _, l := range Block(lines, w-2, h-2) {
		out = append(out, side+l+side)
	}
	return append(out, b.edge(t, g.BottomLeft, g.BottomRight, "", b.Foot, w))
}
