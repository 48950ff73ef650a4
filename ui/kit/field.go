package kit

import (
	"unicode"

	tea "charm.land/bubbletea/v2"
)

// Field is one line of text that is typed. It is edited at its end: names, numbers and notes are short.
type Field struct {
	Label string
	Value string
	Empty string // what an empty field means
	Unit  string
	Max   int // runes
}

// Press takes a key in; keys that do not write are ignored.
func (fl *Field) Press(msg tea.KeyPressMsg) {
	switch runes := []rune(fl.Value); msg.String() {
	case "backspace", "ctrl+h":
		if len(runes) > 0 {
			fl.Value = string(runes[:len(runes)-1])
		}
	case "ctrl+u":
		fl.Value = ""
	case "ctrl+w":
		end := len(runes)
		for end > 0 && unicode.IsSpace(runes[end-1]) {
			end--
		}
		for end > 0 && !unicode.IsSpace(runes[end-1]) {
			end--
		}
		fl.Value = string(runes[:end])
	default:
		fl.Insert(msg.Text)
	}
}

// Insert appends text, without what a terminal would obey and no longer than the field may be. Line feeds become spaces.
func (fl *Field) Insert(text string) {
	runes := []rune(fl.Value)
	for _, r := range text {
		if len(runes) >= fl.Max {
			break
		}
		switch {
		case r == '\n' || r == '\t':
			runes = append(runes, ' ')
		case unicode.IsGraphic(r) || r == '\u200d' || unicode.Is(unicode.Variation_Selector, r):
			runes = append(runes, r)
		}
	}
	fl.Value = string(runes)
}

// labelW is the width of the labels of fields.
const labelW = 10

// Draw draws the field in w cells; the end of a text that is too long is what is seen.
func (fl Field) Draw(t *Theme, w int, focus bool) string {
	label := t.Dim
	if focus {
		label = t.Accent
	}
	unit := ""
	if fl.Unit != "" {
		unit = " " + t.Dim.Render(fl.Unit)
	}
	room := max(1, w-labelW-Width(unit)-1)
	value := fl.Value
	for runes := []rune(value); Width(value) > room; value = string(runes) {
		runes = runes[1:]
	}
	text := t.Text.Render(Cut(value, room))
	if fl.Value == "" {
		text = t.Dim.Render(Cut(fl.Empty, room))
	}
	cursor := " "
	if focus {
		cursor = t.Text.Reverse().Render(" ")
		if fl.Value == "" {
			return Pad(label.Render(Fit(fl.Label, labelW))+cursor+text+unit, w)
		}
	}
	return Pad(label.Render(Fit(fl.Label, labelW))+text+cursor+unit, w)
}
