package dialogs

import (
	tea "charm.land/bubbletea/v2"

	"bromure.io/tui/internal/problem"
	"bromure.io/tui/ui/kit"
)

// Error stays until it was seen.
type Error struct {
	title, text, hint string
}

// NewError is the dialog of an error; what names what was tried.
func NewError(what string, err error) Error {
	return Error{title: what, text: err.Error(), hint: problem.HintOf(err)}
}

// Keys are those of a message.
func (d Error) Keys(*kit.Frame) kit.Keys {
	return kit.Keys{kit.B("close", 1, "enter", "seen", "Close it", "enter", "esc", "space", "ctrl+c")}
}

// Update answers keys.
func (d Error) Update(f *kit.Frame, msg tea.Msg) (kit.Screen, []kit.Intent) {
	if key, ok := msg.(tea.KeyPressMsg); ok {
		if _, known := d.Keys(f).Find(key); known {
			return d, []kit.Intent{kit.Close{}}
		}
	}
	return d, nil
}

// View draws the box.
func (d Error) View(f *kit.Frame) string {
	t := f.Theme
	w := max(1, min(72, f.Size.W-2))
	var lines []string
	for _, l := range kit.Wrap(d.text, w-4) {
		lines = append(lines, t.Text.Render(l))
	}
	if d.hint != "" {
		lines = append(lines, "")
		for _, l := range kit.Wrap(d.hint, w-4) {
			lines = append(lines, t.Accent.Render(l))
		}
	}
	return kit.Dialog(f, kit.Box{Title: t.Danger.Bold().Render(kit.Cut(d.title, w-8))}, lines, w, 0, d.Keys(f))
}
