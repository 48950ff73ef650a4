package screens

import (
	"fmt"
	"strings"

	"bromure.io/tui/ui/kit"
	"bromure.io/tui/vm"
)

// Sizes at which the screen changes its shape, in cells.
const (
	lineW, lineH = 20, 5 // below either: one plain line
	splitW       = 60    // below: list and detail take turns
)

func narrow(s kit.Size) bool { return s.W < splitW }

// Tiny says whether there is room for no more than a line.
func Tiny(s kit.Size) bool { return s.W < lineW || s.H < lineH }

// Rect is a part of the screen.
type Rect struct{ X, Y, W, H int }

// layout is where things are.
type layout struct {
	list   Rect // with its frame; empty: it is not shown
	detail Rect
	rows   int // rows of the list
	meters int // rows below the list, for the load of the selected workspace
}

// metersH is how many rows the load below the list takes, with the line above it.
const metersH = 5

func layoutOf(f *kit.Frame) layout {
	w, h := f.Size.W, f.Size.H
	body := Rect{0, 1, w, max(0, h-2)}
	inConsole := f.Console != nil && f.Console.Focused
	if f.Full && f.Console != nil || narrow(f.Size) {
		l := layout{detail: body, rows: max(0, body.H-2)}
		if !inConsole && !f.Full {
			l.list = body // the screen decides which of the two it shows
		}
		return l
	}
	listW := 26
	switch {
	case w >= 160:
		listW = 48
	case w >= 100:
		listW = 34
	}
	l := layout{list: Rect{0, 1, listW, body.H}, detail: Rect{listW, 1, w - listW, body.H}, rows: max(0, body.H-2)}
	if f.Console != nil && body.H >= 16 {
		l.meters = metersH
		l.rows -= metersH
	}
	return l
}

// ConsoleArea is where the cells of a console are, for a screen of that size: without frame where it has the whole screen.
func ConsoleArea(size kit.Size, full bool) Rect {
	f := &kit.Frame{Size: size, Full: full, Console: &kit.ConsoleView{Focused: true}}
	d := layoutOf(f).detail
	if full || narrow(size) {
		return d
	}
	in := kit.Inner(d.W, d.H)
	return Rect{d.X + 2, d.Y + 1, in.W, in.H}
}

// hit is the workspace in the row of the list that stands at a place on the screen.
func (s Workspaces) hit(f *kit.Frame, x, y int) vm.ID {
	l := layoutOf(f)
	row := y - l.list.Y - 1
	if x < l.list.X+1 || x >= l.list.X+l.list.W-1 || row < 0 || row >= l.rows || row+s.top >= len(s.shown) {
		return ""
	}
	return s.shown[row+s.top]
}

// View draws the whole screen.
func (s Workspaces) View(f *kit.Frame) string {
	if Tiny(f.Size) {
		return s.line(f)
	}
	l := layoutOf(f)
	var body []string
	switch {
	case l.list.W == 0 || l.list == l.detail && s.detail:
		body = s.drawDetail(f, l.detail)
	case l.list == l.detail:
		body = s.drawList(f, l)
	default:
		body = kit.Beside(s.drawList(f, l), s.drawDetail(f, l.detail))
	}
	lines := append([]string{header(f)}, body...)
	return strings.Join(append(lines, s.footer(f)), "\n")
}

// line is all that fits when there is no room: what runs, and what is wrong.
func (s Workspaces) line(f *kit.Frame) string {
	running, wrong := count(f)
	text := fmt.Sprintf("%d of %d run", running, len(f.Snap.Workspaces))
	if wrong > 0 {
		text = fmt.Sprintf("%d wrong, ", wrong) + text
	}
	if f.Lost != "" {
		text = "no daemon"
	}
	if kit.Width(text) > f.Size.W {
		text = fmt.Sprintf("%d/%d", running, len(f.Snap.Workspaces))
		if wrong > 0 {
			text += fmt.Sprintf(" %d%s", wrong, f.Theme.Glyph.Broken)
		}
	}
	return strings.Join(kit.Block([]string{kit.Cut(text, f.Size.W)}, f.Size.W, f.Size.H), "\n")
}

// count is how many machines run, and in how many workspaces something is wrong.
func count(f *kit.Frame) (running, wrong int) {
	for _, w := range f.Snap.Workspaces {
		if w.State == vm.Running {
			running++
		}
		if w.Compromise != nil || w.State == vm.Broken {
			wrong++
		}
	}
	return running, wrong
}

func (s Workspaces) drawList(f *kit.Frame, l layout) []string {
	t := f.Theme
	focus := f.Console == nil || !f.Console.Focused
	in := kit.Size{W: l.list.W - 2, H: l.rows}
	rows := s.list.draw(f, in.W, in.H, focus)
	if len(rows) == 0 {
		rows = empty(f, s.filter, in.W-2)
	}
	title := t.Title.Render("Workspaces")
	if s.typing || s.filter != "" {
		cursor := ""
		if s.typing {
			cursor = t.Accent.Render("_")
		}
		title = t.Accent.Render("/"+kit.Cut(s.filter, in.W-6)) + cursor
	}
	right := ""
	if s.order != byName {
		right = t.Dim.Render("by " + s.order.String())
	}
	rows = kit.Block(rows, in.W, in.H)
	box := kit.Box{Title: title, Right: right, Focus: focus}
	lines := box.DrawFlush(t, rows, l.list.W, l.rows+2)
	if l.meters > 0 {
		lines = append(lines[:len(lines)-1], s.meters(f, l.list.W, l.meters)...)
	}
	return lines
}

// empty is what stands in a list without rows.
func empty(f *kit.Frame, filter string, w int) []string {
	text := "No workspaces yet. n makes the first one."
	switch {
	case filter != "":
		text = "Nothing matches. esc shows all."
	case f.Lost != "":
		text = "The daemon does not answer."
	case !f.Ready:
		text = "Asking the daemon…"
	}
	var out []string
	for _, l := range kit.Wrap(text, w) {
		out = append(out, " "+f.Theme.Dim.Render(l))
	}
	return out
}

func (s Workspaces) footer(f *kit.Frame) string {
	t := f.Theme
	if f.Notice != "" {
		return kit.Pad(" "+t.Warn.Render(kit.Cut(f.Notice, f.Size.W-2)), f.Size.W)
	}
	return s.Keys(f).Footer(t, f.Size.W)
}
