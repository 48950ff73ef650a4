package vm

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Name is what people call a workspace: a label in any script, with spaces and emoji. It is never a path
// component, a host name or an argument of a program; [ID] is for those.
type Name string

// MaxNameRunes is how long a name may be, in code points after normalisation.
const MaxNameRunes = 63

// ParseName checks s and returns it in Unicode normalisation form C.
func ParseName(s string) (Name, error) {
	if !utf8.ValidString(s) {
		return "", errors.New("a workspace name must be valid UTF-8")
	}
	s = norm.NFC.String(s)
	switch {
	case s == "":
		return "", errors.New("a workspace name must not be empty")
	case s == "." || s == "..":
		return "", fmt.Errorf("a workspace cannot be called %q", s)
	case utf8.RuneCountInString(s) > MaxNameRunes:
		return "", fmt.Errorf("a workspace name has at most %d characters, this one has %d", MaxNameRunes, utf8.RuneCountInString(s))
	case strings.HasPrefix(s, "-"):
		return "", fmt.Errorf("a workspace name must not begin with a dash: %q", s)
	case strings.TrimFunc(s, unicode.IsSpace) != s:
		return "", fmt.Errorf("a workspace name must not begin or end with a space: %q", s)
	}
	if _, err := ParseID(s); err == nil {
		return "", fmt.Errorf("a workspace name must not have the form of an ID: %q", s)
	}
	visible := false
	for _, r := range s {
		if why := badNameRune(r); why != "" {
			return "", fmt.Errorf("a workspace name must not contain %s: %q", why, s)
		}
		visible = visible || shows(r)
	}
	if !visible {
		return "", fmt.Errorf("a workspace name must show something: %q", s)
	}
	return Name(s), nil
}

// shows says whether r alone leaves ink: marks do not, nor do fillers that are letters by category.
func shows(r rune) bool {
	return unicode.IsGraphic(r) && !unicode.IsSpace(r) && !unicode.IsMark(r) &&
		!unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) && r != '\u2800' // braille without a dot
}

// badNameRune names what is wrong with r in a name. Zero-width joiners and variation selectors
// are fine (emoji need them); characters that change the direction of what follows are not (UAX #9).
func badNameRune(r rune) string {
	switch {
	case r == '/':
		return "a slash"
	case unicode.IsControl(r):
		return "control characters"
	case r == '\u2028' || r == '\u2029':
		return "line separators"
	case unicode.Is(unicode.Bidi_Control, r):
		return "characters that reverse the text"
	}
	return ""
}

// Key is the form in which names are compared: two names with the same key are the same name.
func (n Name) Key() string {
	return norm.NFC.String(cases.Fold().String(norm.NFD.String(string(n)))) // a Caser must not be shared
}
