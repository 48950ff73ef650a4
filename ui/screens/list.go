package screens

import (
	"cmp"
	"slices"
	"strings"

	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/ui/kit"
	"bromure.io/tui/vm"
)

// order is what the list is sorted by.
type order int

const (
	byName order = iota
	byState
	byUse
	orders
)

func (o order) String() string { return [...]string{"name", "state", "last use"}[o] }

// list is which workspaces are shown and which of them is selected: by its ID, so that a change of the list moves
// the row and never the choice.
type list struct {
	selected vm.ID
	before   vm.ID // the one that was selected before
	filter   string
	order    order
	top      int
	shown    []vm.ID // when it was synced last
}

// rows are the workspaces to show, in their order.
func (l *list) rows(f *kit.Frame) []wire.Workspace {
	var out []wire.Workspace
	for _, w := range f.Snap.Workspaces {
		if Matches(l.filter, string(w.Name)) {
			out = append(out, w)
		}
	}
	switch l.order {
	case byState:
		slices.SortStableFunc(out, func(a, b wire.Workspace) int { return cmp.Compare(urgency(a), urgency(b)) })
	case byUse:
		slices.SortStableFunc(out, func(a, b wire.Workspace) int { return b.LastUsed.Compare(a.LastUsed) })
	}
	return out
}

// urgency puts what is wrong first, then what runs.
func urgency(w wire.Workspace) int {
	switch {
	case w.Compromise != nil:
		return 0
	case w.State == vm.Broken:
		return 1
	case w.State != vm.Off:
		return 2
	}
	return 3
}

// Matches says whether the letters of a pattern stand in a text in their order.
func Matches(pattern, text string) bool {
	rest := []rune(strings.ToLower(text))
	for _, p := range strings.ToLower(pattern) {
		i := slices.Index(rest, p)
		if i < 0 {
			return false
		}
		rest = rest[i+1:]
	}
	return true
}

// sync keeps the selection on its workspace. When that is gone, the nearest one that was below it is selected, else above it.
func (l *list) sync(f *kit.Frame) {
	rows := l.rows(f)
	now := make([]vm.ID, len(rows))
	for i, w := range rows {
		now[i] = w.ID
	}
	if !slices.Contains(now, l.selected) {
		l.selected = l.heir(now)
	}
	l.shown = now
}

func (l *list) heir(now []vm.ID) vm.ID {
	at := slices.Index(l.shown, l.selected)
	if at >= 0 {
		for _, id := range l.shown[at+1:] {
			if slices.Contains(now, id) {
				return id
			}
		}
		for _, id := range slices.Backward(l.shown[:at]) {
			if slices.Contains(now, id) {
				return id
			}
		}
	}
	if len(now) > 0 {
		return now[0]
	}
	return ""
}

// row is where the selected one stands; -1: nowhere.
func (l *list) row() int { return slices.Index(l.shown, l.selected) }

func (l *list) choose(id vm.ID) {
	if id != "" && id != l.selected {
		l.before, l.selected = l.selected, id
	}
}

// at is the workspace in a row, with the ends of the list as bounds.
func (l *list) at(row int) vm.ID {
	if len(l.shown) == 0 {
		return ""
	}
	return l.shown[max(0, min(row, len(l.shown)-1))]
}

// around is the workspace that many rows further, from the end to the beginning.
func (l *list) around(by int) vm.ID {
	n := len(l.shown)
	if n == 0 {
		return ""
	}
	return l.shown[((max(0, l.row())+by)%n+n)%n]
}

// draw draws the rows, and scrolls so that the selected one is seen.
func (l *list) draw(f *kit.Frame, w, h int, focus bool) []string {
	rows := l.rows(f)
	at := slices.IndexFunc(rows, func(w wire.Workspace) bool { return w.ID == l.selected })
	top := kit.Window(l.top, max(0, at), len(rows), h)
	var out []string
	for i, ws := range rows[top:min(len(rows), top+max(0, h))] {
		out = append(out, l.drawRow(f, ws, top+i+1, w, focus))
	}
	return out
}

func (l *list) drawRow(f *kit.Frame, ws wire.Workspace, n, w int, focus bool) string {
	t := f.Theme
	sign, style := kit.StateSign(t, ws)
	number := " "
	if n <= 9 {
		number = string(rune('0' + n))
	}
	mark, base := " ", t.Text
	if ws.ID == l.selected {
		mark = t.Glyph.Bar
		if focus {
			base = t.Selected.Over(t.Text)
			style = style.Over(t.Selected)
		} else {
			base = t.Title
		}
	}
	right := kit.StateWord(ws, f.Now)
	if op, ok := f.OpOf(ws.ID); ok {
		right = string(op.Verb) + " " + kit.Span(f.Now.Sub(op.Begun))
	}
	room := w - 6 - kit.Width(right) - 1
	if room < 8 && kit.Width(right) > 6 && ws.Compromise == nil {
		right = ""
		room = w - 6
	}
	word := base
	if ws.Compromise != nil || ws.State == vm.Broken {
		word = style
	} else if ws.ID != l.selected || !focus {
		word = t.Dim
	}
	name := kit.Fit(string(nameOf(ws)), max(0, room))
	row := base.Render(mark) + style.Render(sign) + base.Render(" "+number+" "+name+" ")
	if right != "" {
		row += word.Render(right)
	}
	return row + base.Render(kit.Pad("", w-kit.Width(row)))
}

// nameOf is a name, or the ID of a workspace whose settings cannot be read.
func nameOf(w wire.Workspace) vm.Name {
	if w.Name == "" {
		return vm.Name(w.ID.Short())
	}
	return w.Name
}
