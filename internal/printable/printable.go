// Package printable makes text of unknown origin fit for a terminal: names, notes, errors and
// everything that a guest said. What a terminal would obey is shown as an escape instead, so that
// nothing disappears and nothing acts. It imports nothing of ours.
//
// It does not judge widths or fonts; it is about bytes that do something (ECMA-48, UAX #9).
package printable

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line makes s fit to be part of one line: no control characters (C0, DEL, C1), line separators or
// characters that reverse the text are left, and what is not UTF-8 is shown byte by byte.
func Line(s string) string { return clean(s, unprintable) }

// Text is [Line] for text of several lines: line feeds and tabs stay, and a carriage return before a line
// feed goes.
func Text(s string) string {
	return clean(strings.ReplaceAll(s, "\r\n", "\n"), func(r rune) bool { return r != '\n' && r != '\t' && unprintable(r) })
}

func clean(s string, bad func(rune) bool) string {
	i := firstBad(s, bad)
	if i < 0 {
		return s
	}
	var b strings.Builder
	b.WriteString(s[:i])
	for i < len(s) {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case !bad(r):
			b.WriteString(s[i : i+n])
		default:
			b.WriteString(escape(r))
		}
		i += n
	}
	return b.String()
}

func firstBad(s string, bad func(rune) bool) int {
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 || bad(r) {
			return i
		}
		i += n
	}
	return -1
}

func unprintable(r rune) bool {
	return unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || unicode.Is(unicode.Bidi_Control, r)
}

func escape(r rune) string {
	switch r {
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	}
	if r < 0x100 {
		return fmt.Sprintf(`\x%02x`, r)
	}
	return fmt.Sprintf(`\u%04x`, r)
}

// JSON makes encoded JSON fit for a terminal, without changing what it says: package json escapes
// C0 only, and outside strings JSON is ASCII.
func JSON(data []byte) []byte {
	s := string(data)
	bad := func(r rune) bool { return r >= 0x7f && unprintable(r) }
	if firstBad(s, bad) < 0 {
		return data
	}
	var b strings.Builder
	for _, r := range s {
		if bad(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return []byte(b.String())
}
