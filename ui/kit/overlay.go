package kit

import (
	"strings"

	"github.com/charmbracelet/x/ansi"
)

// Overlay puts a box over a screen, a line of it over a line; a wide character that the box halves makes room for spaces.
func Overlay(base, box string, x, y int) string {
	lines := strings.Split(base, "\n")
	for i, over := range strings.Split(box, "\n") {
		if y+i < 0 || y+i >= len(lines) {
			continue
		}
		under := lines[y+i]
		w, n := Width(under), Width(over)
		right := ""
		if rest := w - x - n; rest > 0 {
			right = Right(ansi.TruncateLeft(under, x+n, ""), rest)
		}
		lines[y+i] = Pad(under, x) + ansi.ResetStyle + over + right
	}
	return strings.Join(lines, "\n")
}
