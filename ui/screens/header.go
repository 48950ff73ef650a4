package screens

import (
	"bromure.io/tui/internal/verb"
	"bromure.io/tui/ui/kit"
	"bromure.io/tui/vm"
)

// header is the first line: what runs, what is in progress, and what machines run on here.
func header(f *kit.Frame) string {
	t, w := f.Theme, f.Size.W
	left := " " + t.Accent.Bold(true).Render("bromure")
	running, wrong := count(f)
	if f.Ready {
		left += "  " + t.Text.Render(kit.Count(running, "machine")+" running "+t.Glyph.Dot+" "+kit.Count(len(f.Snap.Workspaces), "workspace"))
		if wrong > 0 {
			left += " " + t.Danger.Render(t.Glyph.Dot+" "+kit.Count(wrong, "problem"))
		}
	}
	if f.Lost != "" {
		return kit.Ends(left, t.Alarm.Render(" "+kit.Cut(f.Lost, max(0, w-kit.Width(left)-4))+" "), w)
	}
	for _, op := range f.Ops {
		if op.ID == "" {
			text := op.What
			if op.Step != "" {
				text += ": " + op.Step
			}
			return kit.Ends(left, t.Warn.Render(kit.Cut(text, max(0, w-kit.Width(left)-12))+" "+kit.Span(f.Now.Sub(op.Begun)))+" ", w)
		}
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
