package kit

import "strings"

// Dialog draws lines as a box of w cells that is no taller than the screen, with its keys in the lower edge. Where the lines do
// not fit, those around at are shown.
func Dialog(f *Frame, box Box, lines []string, w, at int, keys Keys) string {
	t := f.Theme
	w = max(1, min(w, f.Size.W))
	h := max(1, min(len(lines)+2, f.Size.H))
	room := h - 2
	top := Window(0, at, len(lines), room)
	box.Focus = true
	if room > 0 && len(lines) > room {
		below := len(lines) - top - room
		box.Right = t.Dim.Render(strings.TrimSpace(arrow(top, t.Glyph.Up) + " " + arrow(below, t.Glyph.Down)))
	}
	foot, _ := keys.footer(t, 1, w-6)
	if more, whole := keys.footer(t, 2, w-6); whole {
		foot = more
	}
	box.Foot = strings.TrimSpace(foot)
	if room <= 0 {
		return Pad(strings.Join(lines[:min(1, len(lines))], ""), w)
	}
	return strings.Join(box.Draw(t, lines[top:], w, h), "\n")
}

func arrow(n int, glyph string) string {
	if n <= 0 {
		return ""
	}
	return glyph
}
