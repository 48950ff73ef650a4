package kit

import (
	"strings"

	"github.com/charmbracelet/x/ansi"

	"bromure.io/tui/internal/printable"
)

// Width is how many cells a styled text takes in a line.
func Width(s string) int {
	if n, ok := plainWidth(s); ok {
		return n
	}
	return ansi.StringWidth(s)
}

// plainWidth counts texts of ASCII, colours and the signs that frames are drawn with, which are nearly all; false: it has other
// characters, and what they take depends on their neighbours.
func plainWidth(s string) (n int, ok bool) {
	for i := 0; i < len(s); {
		switch b := s[i]; {
		case b == 0x1b:
			if i+1 >= len(s) || s[i+1] != '[' {
				return 0, false
			}
			for i += 2; i < len(s) && (s[i] < 0x40 || s[i] > 0x7e); i++ {
			}
			i++
		case b >= 0x20 && b < 0x7f:
			n, i = n+1, i+1
		case b == 0xc2 && i+1 < len(s) && s[i+1] == 0xb7: // U+00B7, the dot between words
			n, i = n+1, i+2
		case b == 0xe2 && i+2 < len(s) && (s[i+1] >= 0x94 && s[i+1] <= 0x96): // U+2500 to U+25BF: lines, blocks, triangles
			n, i = n+1, i+3
		default:
			return 0, false
		}
	}
	return n, true
}

// Cut is foreign text made printable, and shortened with an ellipsis to at most w cells.
func Cut(s string, w int) string {
	if w <= 0 {
		return ""
	}
	return ansi.Truncate(printable.Line(s), w, "…")
}

// Fit is [Cut], filled up with spaces to exactly w cells.
func Fit(s string, w int) string { return Pad(Cut(s, w), w) }

// Pad fills or clips a styled text to exactly w cells. A wide character that would be halved makes room for a space.
func Pad(styled string, w int) string {
	if w <= 0 {
		return ""
	}
	n := Width(styled)
	if n > w {
		styled = ansi.Truncate(styled, w, "")
		n = Width(styled)
	}
	return styled + strings.Repeat(" ", max(0, w-n))
}

// Right is Pad with the text at the right end.
func Right(styled string, w int) string {
	if n := Width(styled); n < w {
		return strings.Repeat(" ", w-n) + styled
	}
	return Pad(styled, w)
}

// Ends puts one text at the left and one at the right end of a line of w cells; the right one goes first when both do not fit.
func Ends(left, right string, w int) string {
	l, r := Width(left), Width(right)
	if l+r+1 > w {
		return Pad(left, w)
	}
	return left + strings.Repeat(" ", w-l-r) + right
}

// Wrap breaks foreign text into lines of at most w cells, between words where it can.
func Wrap(s string, w int) []string {
	if w <= 0 {
		return nil
	}
	return strings.Split(ansi.Wrap(strings.ReplaceAll(printable.Text(s), "\t", " "), w, "/-"), "\n")
}

// Block makes lines exactly h lines of exactly w cells.
func Block(lines []string, w, h int) []string {
	out := make([]string, 0, max(0, h))
	for i := range max(0, h) {
		if i < len(lines) {
			out = append(out, Pad(lines[i], w))
		} else {
			out = append(out, strings.Repeat(" ", max(0, w)))
		}
	}
	return out
}

// Window is the part of n lines that is visible in h rows so that row at is in it; top is where it began before.
func Window(top, at, n, h int) int {
	if h <= 0 || n <= h {
		return 0
	}
	if at < top {
		top = at
	}
	if at >= top+h {
		top = at - h + 1
	}
	return max(0, min(top, n-h))
}
