package screens

import (
	"fmt"

	"bromure.io/tui/internal/verb"
	"bromure.io/tui/ui/kit"
	"bromure.io/tui/vm"
)

// header is the first line: what runs, what is in progress, and what machines run on here.
func header(f *kit.Frame) string {
	t, w := f.Theme, f.Size.W
	name := " " + t.Accent.Bold().Render("bromure")
	left := name + counts(f, w-kit.Width(name))
	if f.Lost != "" {
		return kit.Ends(name, t.Alarm.Render(" "+kit.Cut(f.Lost, max(0, w-kit.Width(name)-4))+" "), w)
	}
	for _, op := range f.Ops {
		if op.ID != "" {
			continue // it is shown with its workspace
		}
		text := op.What
		if op.Step != "" {
			text += ": " + op.Step
		}
		left = name + counts(f, w/2-kit.Width(name))
		return kit.Ends(left, t.Warn.Render(kit.Cut(text, max(0, w-kit.Width(left)-10))+"  "+kit.Span(f.Now.Sub(op.Begun)))+" ", w)
	}
	if !f.Ready {
		return kit.Pad(left, w)
	}
	free := verb.Bytes(f.Snap.FreeBytes) + " free"
	on := accelerator(f)
	for _, right := range []string{on + " " + t.Glyph.Dot + " " + free, free} {
		if kit.Width(left)+kit.Width(right)+3 <= w {
			return kit.Ends(left, t.Dim.Render(right)+" ", w)
		}
	}
	return kit.Pad(left, w)
}

// counts says how many machines run, as long as there is room.
func counts(f *kit.Frame, room int) string {
	if !f.Ready {
		return ""
	}
	t := f.Theme
	running, wrong := count(f)
	all := len(f.Snap.Workspaces)
	long := fmt.Sprintf("  %s running %s %s", kit.Count(running, "machine"), t.Glyph.Dot, kit.Count(all, "workspace"))
	short := fmt.Sprintf("  %d of %d run", running, all)
	bad := ""
	if wrong > 0 {
		bad = fmt.Sprintf(" %s %s", t.Glyph.Dot, kit.Count(wrong, "problem"))
	}
	for _, text := range []string{long, short} {
		if kit.Width(text)+kit.Width(bad) <= room {
			return t.Text.Render(text) + t.Danger.Render(bad)
		}
	}
	if kit.Width(short) <= room {
		return t.Text.Render(short)
	}
	return ""
}

func accelerator(f *kit.Frame) string {
	switch c := f.Snap.Capabilities; c.Accelerator {
	case vm.Emulated:
		return "emulated: " + kit.Cut(c.Why, 40)
	case "":
		return "accelerator not probed yet"
	default:
		return string(c.Accelerator)
	}
}
