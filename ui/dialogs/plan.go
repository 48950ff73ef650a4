// Package dialogs has the questions that name what goes, and the news that stay until they were seen. A dialog holds the
// value that it asks about, not a row: the list may change beneath it. It never acts; it answers with intents.
package dialogs

import (
	tea "charm.land/bubbletea/v2"

	"bromure.io/tui/internal/verb"
	"bromure.io/tui/ui/kit"
)

// Plan shows what a verb removes and asks, as its weight demands: yes or no with no chosen beforehand, or the name.
type Plan struct {
	plan    verb.Plan
	changed bool // the plan that was confirmed was out of date; this is the new one
	yes     bool
	top     int
	typed   kit.Field
	answer  bool // it was answered; a second press does nothing
}

// NewPlan is the dialog of a plan.
func NewPlan(p verb.Plan) Plan {
	return Plan{plan: p, typed: kit.Field{Label: "type", Max: 80}}
}

// NewChangedPlan is the dialog of a plan that replaces one which was out of date.
func NewChangedPlan(p verb.Plan) Plan {
	d := NewPlan(p)
	d.changed = true
	return d
}

// Keys depend on what is asked.
func (d Plan) Keys(*kit.Frame) kit.Keys {
	scroll := kit.Keys{
		kit.B("down", 0, "pgdown", "scroll", "Scroll down", "pgdown", "down"),
		kit.B("up", 0, "pgup", "scroll up", "Scroll up", "pgup", "up"),
	}
	switch d.plan.Weigh() {
	case verb.AskNothing:
		return append(kit.Keys{kit.B("close", 1, "esc", "close", "Close", "esc", "enter", "q", "ctrl+c")}, scroll...)
	case verb.AskYesNo:
		return append(kit.Keys{
			kit.B("close", 1, "esc", "keep it", "Remove nothing", "esc", "n", "q", "ctrl+c"),
			kit.B("toggle", 1, "tab", "yes or no", "Choose the other answer", "tab", "left", "right"),
			kit.B("go", 1, "enter", "answer", "Give the chosen answer", "enter"),
		}, scroll...)
	}
	enter := kit.B("go", 1, "enter", word(d.plan.Verb), "Do what stands here", "enter")
	if !d.plan.Confirms(d.typed.Value) {
		enter = enter.OffIf(errNotTyped)
	}
	return append(kit.Keys{kit.B("close", 1, "esc", "keep it", "Remove nothing", "esc", "ctrl+c"), enter}, scroll...)
}

// Update answers keys.
func (d Plan) Update(f *kit.Frame, msg tea.Msg) (kit.Screen, []kit.Intent) {
	if d.answer {
		return d, nil
	}
	switch msg := msg.(type) {
	case tea.PasteMsg:
		d.typed.Insert(msg.Content)
	case tea.MouseWheelMsg:
		if msg.Button == tea.MouseWheelUp {
			d.top = max(0, d.top-1)
		} else {
			d.top = min(d.top+1, d.last(f))
		}
	case tea.KeyPressMsg:
		b, known := d.Keys(f).Find(msg)
		if !known {
			d.typed.Press(msg)
			return d, nil
		}
		if b.Off != nil {
			return d, nil
		}
		switch b.Action {
		case "close":
			return d, []kit.Intent{kit.Close{}}
		case "toggle":
			d.yes = !d.yes
		case "down":
			d.top = min(d.top+1, d.last(f))
		case "up":
			d.top = max(0, d.top-1)
		case "go":
			if d.plan.Weigh() == verb.AskYesNo && !d.yes {
				return d, []kit.Intent{kit.Close{}}
			}
			d.answer = true
			return d, []kit.Intent{kit.Close{}, kit.CarryOut{Plan: d.plan}}
		}
	}
	return d, nil
}

// width of the box on a screen.
func width(f *kit.Frame) int { return max(1, min(84, f.Size.W-2)) }

// last is how far it can be scrolled.
func (d Plan) last(f *kit.Frame) int {
	return max(0, len(d.body(f, width(f)-4))-max(1, f.Size.H-2-len(d.question(f, width(f)-4))))
}

// View draws the box: what goes and stays scrolls, the question stays.
func (d Plan) View(f *kit.Frame) string {
	t, w := f.Theme, width(f)
	words := d.plan.Words(f.Now)
	body, question := d.body(f, w-4), d.question(f, w-4)
	room := max(1, f.Size.H-2-len(question))
	box := kit.Box{Title: t.Danger.Bold().Render(kit.Cut(words.Title, w-8))}
	if len(body) > room {
		top := min(d.top, len(body)-room)
		if more := len(body) - top - room; more > 0 {
			question = append([]string{t.Warn.Render(kit.Cut(kit.Count(more, "more line")+", pgdown", w-4))}, question...)
			room = max(1, room-1)
		}
		body = body[top:min(len(body), top+room)]
	}
	lines := append(body, question...)
	return kit.Dialog(f, box, lines, w, len(lines)-1, d.Keys(f))
}

func (d Plan) body(f *kit.Frame, w int) []string {
	t := f.Theme
	words := d.plan.Words(f.Now)
	out := []string{}
	if d.changed {
		for _, l := range kit.Wrap("Nothing was removed: it has changed meanwhile. This is how it is now.", w) {
			out = append(out, t.Warn.Render(l))
		}
		out = append(out, "")
	}
	if len(words.Goes) > 0 {
		out = append(out, t.Title.Render("This goes")+t.Dim.Render("  "+words.Sum+" in all"))
		for _, l := range words.Goes {
			out = append(out, goes(t, l, w)...)
		}
	}
	if len(words.Stays) > 0 {
		out = append(out, "", t.Title.Render("This stays"))
		for _, s := range words.Stays {
			for i, l := range kit.Wrap(s, w-2) {
				if i == 0 {
					out = append(out, "  "+t.Text.Render(l))
				} else {
					out = append(out, "    "+t.Text.Render(kit.Cut(l, w-4)))
				}
			}
		}
	}
	return out
}

// goes is one thing that goes: its words, and below them path, size and age.
func goes(t *kit.Theme, l verb.Line, w int) []string {
	var facts string
	for _, s := range []string{l.Size, l.Age} {
		if s != "" && facts != "" {
			facts += ", "
		}
		facts += s
	}
	what, path := kit.Cut(l.What, w-2), kit.Cut(l.Path, w-2)
	if n := kit.Width(what) + kit.Width(path) + kit.Width(facts) + 6; n <= w {
		return []string{kit.Ends("  "+t.Text.Render(what)+"  "+t.Dim.Render(path), t.Text.Render(facts), w)}
	}
	var out []string
	for _, line := range kit.Wrap(l.What, w-2) {
		out = append(out, "  "+t.Text.Render(line))
	}
	if path == "" && facts == "" {
		return out
	}
	path = kit.Cut(l.Path, w-4)
	if kit.Width(path)+kit.Width(facts)+6 <= w {
		return append(out, kit.Ends("    "+t.Dim.Render(path), t.Text.Render(facts), w))
	}
	out = append(out, "    "+t.Dim.Render(path))
	for _, line := range kit.Wrap(facts, w-4) {
		out = append(out, "    "+t.Text.Render(line))
	}
	return out
}

func (d Plan) question(f *kit.Frame, w int) []string {
	t := f.Theme
	words := d.plan.Words(f.Now)
	out := []string{""}
	style := t.Text
	if d.plan.Weigh() == verb.AskName {
		style = t.Danger.Bold()
	}
	for _, l := range kit.Wrap(words.WayBack, w) {
		out = append(out, style.Render(l))
	}
	switch d.plan.Weigh() {
	case verb.AskYesNo:
		out = append(out, t.Text.Render(words.Ask)+"  "+choice(t, "no", !d.yes)+"  "+choice(t, "yes", d.yes))
	case verb.AskName:
		for _, l := range kit.Wrap(words.Ask, w) {
			out = append(out, t.Text.Render(l))
		}
		out = append(out, d.typed.Draw(t, w, true))
	}
	return out
}

func choice(t *kit.Theme, word string, chosen bool) string {
	if chosen {
		return t.Selected.Reverse().Render("[" + word + "]")
	}
	return t.Dim.Render(" " + word + " ")
}
