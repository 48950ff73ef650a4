package screens

import (
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"bromure.io/tui/ui/kit"
	"bromure.io/tui/vm"
)

// Finder finds a workspace or an action by a few letters.
type Finder struct {
	main  Workspaces
	query kit.Field
	at    int
}

// NewFinder is the finder over the main screen, whose actions it can run on the selected workspace.
func NewFinder(main Workspaces) Finder {
	return Finder{main: main, query: kit.Field{Label: "go to", Empty: "a workspace or an action", Max: 60}}
}

// choice is one line of the finder.
type choice struct {
	text, note string
	id         vm.ID
	bind       kit.Bind
}

func (s Finder) choices(f *kit.Frame) []choice {
	var out []choice
	for _, w := range f.Snap.Workspaces {
		out = append(out, choice{text: string(nameOf(w)), note: kit.StateWord(w, f.Now), id: w.ID})
	}
	subject := string(nameOf(s.main.subject(f)))
	for _, b := range s.main.Keys(f) {
		if b.Off != nil || slices.Contains(aimless, b.Action) {
			continue
		}
		text := b.Long
		if _, ok := verbs[b.Action]; ok && b.Action != ActBuild && b.Action != ActPrune {
			text += " (" + subject + ")"
		}
		out = append(out, choice{text: text, note: b.Help().Key, bind: b})
	}
	words := strings.Fields(s.query.Value)
	return slices.DeleteFunc(out, func(c choice) bool {
		return slices.ContainsFunc(words, func(w string) bool { return !Matches(w, c.text) })
	})
}

// aimless are actions that make no sense from a list of actions.
var aimless = []kit.Action{ActUp, ActDown, ActTop, ActBottom, ActNumber, ActFind, ActPgUp, ActPgDown, ActBack, ActNext, ActPrev}

// Keys are those of the finder.
func (s Finder) Keys(*kit.Frame) kit.Keys {
	return kit.Keys{
		kit.B("go", 1, "enter", "go", "Go there, or do it", "enter"),
		kit.B("down", 2, "↑ ↓", "choose", "The next one", "down", "ctrl+n", "tab"),
		kit.B("up", 0, "↑", "up", "The one before", "up", "ctrl+p", "shift+tab"),
		kit.B("close", 1, "esc", "leave", "Stay where you are", "esc", "ctrl+c"),
	}
}

// Update answers keys.
func (s Finder) Update(f *kit.Frame, msg tea.Msg) (kit.Screen, []kit.Intent) {
	found := s.choices(f)
	s.at = max(0, min(s.at, len(found)-1))
	switch msg := msg.(type) {
	case tea.PasteMsg:
		s.query.Insert(msg.Content)
	case tea.KeyPressMsg:
		b, known := s.Keys(f).Find(msg)
		if !known {
			s.query.Press(msg)
			s.at = 0
			return s, nil
		}
		switch b.Action {
		case "down":
			s.at = min(s.at+1, max(0, len(found)-1))
		case "up":
			s.at = max(0, s.at-1)
		case "close":
			return s, []kit.Intent{kit.Close{}}
		case "go":
			if len(found) == 0 {
				return s, nil
			}
			if c := found[s.at]; c.id != "" {
				return s, []kit.Intent{kit.Close{}, kit.Select{ID: c.id}}
			} else {
				return s, []kit.Intent{kit.Close{}, kit.Press{Action: c.bind.Action, ID: s.main.selected}}
			}
		}
	}
	return s, nil
}

// View draws the finder as a box.
func (s Finder) View(f *kit.Frame) string {
	t := f.Theme
	w := min(70, f.Size.W-4)
	found := s.choices(f)
	at := max(0, min(s.at, len(found)-1))
	lines := []string{s.query.Draw(t, w-4, true), ""}
	for i, c := range found {
		note := t.Dim.Render(c.note)
		text := kit.Cut(c.text, max(0, w-8-kit.Width(c.note)))
		mark := "  "
		if i == at {
			mark, text = t.Accent.Render(t.Glyph.Bar+" "), t.Selected.Render(text)
		}
		lines = append(lines, kit.Ends(mark+text, note, w-4))
	}
	if len(found) == 0 {
		lines = append(lines, t.Dim.Render("nothing matches"))
	}
	return kit.Dialog(f, kit.Box{Title: t.Title.Render("Go to")}, lines, w, at+2, s.Keys(f))
}
