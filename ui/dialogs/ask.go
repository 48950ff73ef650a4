package dialogs

import (
	tea "charm.land/bubbletea/v2"

	"bromure.io/tui/ui/kit"
)

// Ask is a question with a reason: no is chosen beforehand.
type Ask struct {
	title, text string
	no, yes     string
	chosen      bool
	then        []kit.Intent
}

// NewKill asks before a machine is ended like by a power cut.
func NewKill(do kit.DoVerb) Ask {
	return Ask{
		title: "Kill “" + do.What + "”", text: "Its machine ends at once, as in a power cut: what its programs have not written to the disk is lost. Its disks stay.",
		no: "let it run", yes: "kill it", then: []kit.Intent{do},
	}
}

// NewQuit says what goes on when the front is left.
func NewQuit(running int, operations int) Ask {
	text := kit.Count(running, "machine") + " will go on running; the next bromure-tui finds them. s stops one before you leave."
	if operations > 0 {
		text += " " + kit.Count(operations, "operation") + " in progress will be given up where that is possible."
	}
	return Ask{title: "Quit", text: text, no: "stay", yes: "quit", then: []kit.Intent{kit.Quit{}}}
}

// Keys are those of a question.
func (d Ask) Keys(*kit.Frame) kit.Keys {
	return kit.Keys{
		kit.B("no", 1, "esc", d.no, "No", "esc", "n", "ctrl+c"),
		kit.B("toggle", 1, "tab", "choose", "Choose the other answer", "tab", "left", "right", "h", "l"),
		kit.B("yes", 0, "y", d.yes, "Yes", "y"),
		kit.B("go", 1, "enter", "answer", "Give the chosen answer", "enter"),
	}
}

// Update answers keys.
func (d Ask) Update(f *kit.Frame, msg tea.Msg) (kit.Screen, []kit.Intent) {
	key, ok := msg.(tea.KeyPressMsg)
	if !ok {
		return d, nil
	}
	b, _ := d.Keys(f).Find(key)
	switch b.Action {
	case "no":
		return d, []kit.Intent{kit.Close{}}
	case "toggle":
		d.chosen = !d.chosen
	case "yes":
		return d, append([]kit.Intent{kit.Close{}}, d.then...)
	case "go":
		if d.chosen {
			return d, append([]kit.Intent{kit.Close{}}, d.then...)
		}
		return d, []kit.Intent{kit.Close{}}
	}
	return d, nil
}

// View draws the box.
func (d Ask) View(f *kit.Frame) string {
	t := f.Theme
	w := max(1, min(64, f.Size.W-2))
	var lines []string
	for _, l := range kit.Wrap(d.text, w-4) {
		lines = append(lines, t.Text.Render(l))
	}
	lines = append(lines, "", choice(t, d.no, !d.chosen)+"  "+choice(t, d.yes, d.chosen))
	return kit.Dialog(f, kit.Box{Title: t.Title.Render(kit.Cut(d.title, w-8))}, lines, w, len(lines)-1, d.Keys(f))
}
