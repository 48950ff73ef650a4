package screens

import (
	tea "charm.land/bubbletea/v2"

	"bromure.io/tui/ui/kit"
)

// Help shows every key of the screen that it was opened on, with the reason for those that are off.
type Help struct {
	of  kit.Keys
	top int
}

// NewHelp is the help on some keys.
func NewHelp(of kit.Keys) Help { return Help{of: of} }

// Keys are those of help.
func (s Help) Keys(*kit.Frame) kit.Keys {
	return kit.Keys{
		kit.B("close", 1, "esc", "close", "Close help", "esc", "q", "?", "enter", "ctrl+c"),
		kit.B("down", 1, "↓", "scroll", "Scroll down", "down", "j", "pgdown", "space"),
		kit.B("up", 0, "↑", "scroll up", "Scroll up", "up", "k", "pgup"),
	}
}

// Update answers keys.
func (s Help) Update(f *kit.Frame, msg tea.Msg) (kit.Screen, []kit.Intent) {
	if msg, ok := msg.(tea.KeyPressMsg); ok {
		switch b, _ := s.Keys(f).Find(msg); b.Action {
		case "close":
			return s, []kit.Intent{kit.Close{}}
		case "down":
			s.top = min(s.top+1, max(0, len(s.lines(f, 60))-1))
		case "up":
			s.top = max(0, s.top-1)
		}
	}
	return s, nil
}

func (s Help) lines(f *kit.Frame, w int) []string {
	t := f.Theme
	var out []string
	for _, b := range s.of {
		h := b.Help()
		line := t.Key.Render(kit.Fit(h.Key, 12)) + t.Text.Render(kit.Cut(b.Long, w-12))
		out = append(out, line)
		if b.Off != nil {
			out = append(out, kit.Pad("", 12)+t.Dim.Render(kit.Cut("off: "+b.Why(), w-12)))
		}
	}
	out = append(out, "", t.Title.Render("In a console"),
		t.Key.Render(kit.Fit("ctrl+]", 12))+t.Text.Render(kit.Cut("Leave it; then 1–9 ] [ - go into another one", w-12)),
		t.Key.Render(kit.Fit("shift+pgup", 12))+t.Text.Render(kit.Cut("Scroll back; any other key returns", w-12)))
	return out
}

// View draws help as a box.
func (s Help) View(f *kit.Frame) string {
	w := min(78, f.Size.W-2)
	lines := s.lines(f, w-4)
	return kit.Dialog(f, kit.Box{Title: f.Theme.Title.Render("Keys")}, lines[min(s.top, len(lines)-1):], w, 0, s.Keys(f))
}
