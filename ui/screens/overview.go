package screens

import (
	"fmt"
	"strings"

	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/verb"
	"bromure.io/tui/ui/kit"
	"bromure.io/tui/vm"
)

// maxPorts is how many listening ports are named; a guest can open thousands.
const maxPorts = 12

// drawDetail is what stands beside the list: the console of the selected workspace, or all about it.
func (s Workspaces) drawDetail(f *kit.Frame, r Rect) []string {
	t := f.Theme
	w, ok := f.Find(s.selected)
	if !ok {
		return kit.Box{}.Draw(t, welcome(f, kit.Inner(r.W, r.H).W), r.W, r.H)
	}
	name := string(nameOf(w))
	if c := f.Console; c != nil {
		if f.Full || narrow(f.Size) {
			return kit.Block(c.Lines, r.W, r.H)
		}
		box := kit.Box{Title: t.Title.Render(kit.Cut(name, r.W/2)), Right: tabs(f, r.W/2), Focus: c.Focused}
		switch {
		case c.Ended != "":
			box.Foot = t.Warn.Render(kit.Cut(c.Ended, r.W-8))
		case c.Back > 0:
			box.Foot = t.Warn.Render(fmt.Sprintf("%d lines back", c.Back))
		case c.Focused:
			box.Foot = t.Dim.Render("ctrl+] leaves it")
		}
		return box.Draw(t, c.Lines, r.W, r.H)
	}
	in := kit.Inner(r.W, r.H)
	lines := overview(f, w, in.W)
	top := max(0, min(s.scroll, len(lines)-in.H))
	box := kit.Box{Title: t.Title.Render(kit.Cut(name, r.W/2)), Right: stateTitle(f, w), Focus: s.detail}
	if more := len(lines) - top - in.H; more > 0 {
		box.Foot = t.Dim.Render(fmt.Sprintf("%d more, pgdown", more))
	}
	return box.Draw(t, lines[top:], r.W, r.H)
}

// scrolled bounds how far the overview is scrolled.
func (s Workspaces) scrolled(f *kit.Frame, to int) int {
	w, ok := f.Find(s.selected)
	if !ok {
		return 0
	}
	d := layoutOf(f).detail
	in := kit.Inner(d.W, d.H)
	return max(0, min(to, len(overview(f, w, in.W))-in.H))
}

func tabs(f *kit.Frame, w int) string {
	t, c := f.Theme, f.Console
	if len(c.Tabs) < 2 {
		return ""
	}
	var parts []string
	for i, name := range c.Tabs {
		if i == c.Active {
			parts = append(parts, t.Accent.Bold().Render(kit.Cut(name, 12)))
		} else {
			parts = append(parts, t.Dim.Render(kit.Cut(name, 12)))
		}
	}
	line := strings.Join(parts, t.Dim.Render(" "+t.Glyph.Dot+" "))
	if kit.Width(line) > w {
		return t.Dim.Render(fmt.Sprintf("console %d of %d", c.Active+1, len(c.Tabs)))
	}
	return line
}

func welcome(f *kit.Frame, w int) []string {
	t := f.Theme
	if !f.Ready || f.Lost != "" {
		return nil
	}
	out := []string{"", t.Title.Render("A workspace is a Linux machine of its own.")}
	for _, l := range kit.Wrap("Whatever runs in it, it has two disks that are ordinary files here, and a network that is closed. n makes one.", w) {
		out = append(out, t.Dim.Render(l))
	}
	return out
}

func stateTitle(f *kit.Frame, w wire.Workspace) string {
	sign, style := kit.StateSign(f.Theme, w)
	word := kit.StateWord(w, f.Now)
	if w.State == vm.Running && w.Compromise == nil {
		word = "running " + word
	}
	if w.Consoles > 0 {
		word += " " + f.Theme.Glyph.Dot + " " + kit.Count(w.Consoles, "console")
	}
	return style.Render(sign + " " + word)
}

// overview is all about a workspace, in lines of w cells; what is wrong comes first.
func overview(f *kit.Frame, w wire.Workspace, width int) []string {
	p := &page{f: f, w: width}
	p.trouble(w)
	p.progress(w)
	p.load(w)
	p.ports(w)
	p.facts(w)
	return p.lines
}

// page collects the lines of an overview.
type page struct {
	f     *kit.Frame
	w     int
	lines []string
}

func (p *page) add(line string)           { p.lines = append(p.lines, line) }
func (p *page) head(text string)          { p.gap(); p.add(p.f.Theme.Title.Render(text)) }
func (p *page) field(label, value string) { p.styled(label, kit.Cut(value, max(0, p.w-10))) }
func (p *page) styled(label, styled string) {
	p.add(p.f.Theme.Dim.Render(kit.Fit(label, 9)) + " " + styled)
}

func (p *page) gap() {
	if len(p.lines) > 0 && p.lines[len(p.lines)-1] != "" {
		p.add("")
	}
}

func (p *page) wrap(text string, style func(string) string) {
	for _, l := range kit.Wrap(text, p.w) {
		p.add(style(l))
	}
}

func (p *page) trouble(w wire.Workspace) {
	t := p.f.Theme
	if w.Compromise != nil {
		p.add(t.Alarm.Render(" COMPROMISED "))
		p.wrap(w.Compromise.Reason, t.Danger.Render)
		p.wrap("It does not boot until its disk and home are wiped. Marked "+kit.Ago(p.f.Now, w.Compromise.At)+".", t.Dim.Render)
	}
	if w.Invalid != "" {
		p.add(t.Danger.Bold().Render("Its settings cannot be read"))
		p.wrap(w.Invalid, t.Text.Render)
	}
	if fail := w.Failure; fail != nil {
		p.add(t.Danger.Bold().Render("The last start failed at: " + kit.Cut(fail.Step, 30)))
		p.wrap(fail.Err, t.Text.Render)
		if fail.Hint != "" {
			p.wrap(fail.Hint, t.Accent.Render)
		}
		p.wrap(kit.Ago(p.f.Now, fail.At)+". s tries again.", t.Dim.Render)
	}
}

// progress shows the operation on it, and the steps of a start as they happen.
func (p *page) progress(w wire.Workspace) {
	t := p.f.Theme
	if op, ok := p.f.OpOf(w.ID); ok && op.Verb != verb.Start {
		p.gap()
		text := string(op.Verb)
		if op.Step != "" {
			text += ": " + op.Step
		}
		p.add(t.Warn.Render(kit.Cut(text, p.w-8) + "  " + kit.Span(p.f.Now.Sub(op.Begun))))
	}
	if len(w.Steps) == 0 || w.State == vm.Running && p.f.Now.Sub(w.Started).Minutes() > 1 || w.State == vm.Off {
		return
	}
	p.head("Start")
	for _, s := range w.Steps {
		mark, style := t.Glyph.Busy, t.Warn
		took := ""
		if s.Done {
			mark, style, took = t.Glyph.Running, t.Good, kit.Took(s.Took)
		} else if op, ok := p.f.OpOf(w.ID); ok {
			took = kit.Span(p.f.Now.Sub(op.Begun))
		}
		note := ""
		if s.Note != "" {
			note = "  " + t.Dim.Render(kit.Cut(s.Note, max(0, p.w-26)))
		}
		p.add(style.Render(mark) + " " + t.Text.Render(kit.Fit(s.Name, 12)) + kit.Right(t.Dim.Render(took), 8) + note)
	}
	if w.State == vm.Starting {
		for _, l := range p.f.Serial[w.ID] {
			p.add(t.Dim.Render(kit.Cut(l, p.w)))
		}
	}
}

func (p *page) load(w wire.Workspace) {
	if w.State != vm.Running && w.State != vm.Stopping {
		return
	}
	t := p.f.Theme
	p.head("Now")
	bar := max(4, min(24, p.w-34))
	if l := p.f.Loads[w.ID]; l != nil && w.Stats != nil {
		s := w.Stats
		p.styled("cpu", kit.Meter(t, l.CPU, bar)+fmt.Sprintf(" %3.0f %%  ", l.CPU*100)+t.Dim.Render(kit.Spark(t, l.History, max(0, min(30, p.w-bar-20)))))
		p.styled("memory", kit.Meter(t, ratio(s.MemUsed, s.MemTotal), bar)+" "+used(s.MemUsed, s.MemTotal))
		p.styled("system", kit.Meter(t, ratio(s.RootUsed, s.RootTotal), bar)+" "+used(s.RootUsed, s.RootTotal))
		if s.HomeTotal > 0 {
			p.styled("home", kit.Meter(t, ratio(s.HomeUsed, s.HomeTotal), bar)+" "+used(s.HomeUsed, s.HomeTotal))
		}
		p.field("load", fmt.Sprintf("%.2f  %.2f  %.2f, %d processes", s.Load1, s.Load5, s.Load15, s.Processes))
	} else {
		p.styled("", t.Dim.Render("no reading yet"))
	}
	refused := t.Dim.Render("none")
	if w.Refused > 0 {
		refused = t.Warn.Render(kit.Count(w.Refused, "connection") + " refused")
	}
	p.styled("network", refused)
}

func (p *page) ports(w wire.Workspace) {
	if len(w.Ports) == 0 {
		return
	}
	p.head("Listens on")
	for i, port := range w.Ports {
		if i == maxPorts {
			p.add(p.f.Theme.Dim.Render(fmt.Sprintf("and %d more", len(w.Ports)-i)))
			break
		}
		where := ""
		if port.Loopback {
			where = "  in the guest only"
		}
		p.add(p.f.Theme.Text.Render(kit.Cut(fmt.Sprintf("%5d  %s%s", port.Port, port.Process, where), p.w)))
	}
}

func (p *page) facts(w wire.Workspace) {
	p.head("Workspace")
	p.field("id", w.ID.Short())
	p.field("machine", fmt.Sprintf("%s, %s of memory", kit.Count(w.CPUs, "CPU"), verb.Bytes(int64(w.MemoryMiB)<<20)))
	p.field("disks", fmt.Sprintf("system %s own, home %s of %s", verb.Bytes(w.DiskOwn), verb.Bytes(w.HomeOwn), verb.Bytes(w.HomeMiB<<20)))
	image := w.Image
	if image == "" {
		image = "the newest, at the first start"
	}
	p.field("image", image)
	if w.Accelerator != "" {
		p.field("runs", string(w.Accelerator))
	}
	if w.Throwaway != "" {
		p.field("kept", "no: deleted when its machine stops")
	}
	p.field("created", kit.Ago(p.f.Now, w.Created))
	p.field("used", kit.Ago(p.f.Now, w.LastUsed))
	p.field("files", w.Dir)
	if w.Notes != "" {
		p.head("Notes")
		p.wrap(w.Notes, p.f.Theme.Text.Render)
	}
}

// meters are the load of the selected workspace below the list, while a console has the room beside it: h lines, of which
// the first and the last are edges of the frame.
func (s Workspaces) meters(f *kit.Frame, w, h int) []string {
	t := f.Theme
	ws, _ := f.Find(s.selected)
	border := t.Border
	if f.Console == nil || !f.Console.Focused {
		border = t.Focus
	}
	g := t.Glyph
	lines := []string{border.Render(g.TeeLeft + strings.Repeat(g.Top, w-2) + g.TeeRight)}
	var in []string
	if l := f.Loads[ws.ID]; l != nil && ws.Stats != nil {
		in = append(in,
			t.Dim.Render("cpu  ")+t.Accent.Render(kit.Spark(t, l.History, max(0, w-16)))+fmt.Sprintf(" %3.0f %%", l.CPU*100),
			t.Dim.Render("mem  ")+kit.Cut(used(ws.Stats.MemUsed, ws.Stats.MemTotal), w-9),
		)
	} else {
		in = append(in, t.Dim.Render("cpu  "+string(ws.State)), t.Dim.Render("mem  "+verb.Bytes(int64(ws.MemoryMiB)<<20)))
	}
	net := t.Dim.Render("net  closed")
	if ws.Refused > 0 {
		net += t.Warn.Render(fmt.Sprintf(", %d refused", ws.Refused))
	}
	in = append(in, t.Dim.Render("disk ")+kit.Cut(verb.Bytes(ws.DiskOwn)+" + "+verb.Bytes(ws.HomeOwn), w-9), net)
	for _, l := range kit.Block(in, w-4, h-1) {
		lines = append(lines, border.Render(g.Side)+" "+l+" "+border.Render(g.Side))
	}
	return append(lines, border.Render(g.BottomLeft+strings.Repeat(g.Top, w-2)+g.BottomRight))
}

func used(n, of int64) string { return verb.Bytes(max(0, n)) + " of " + verb.Bytes(max(0, of)) }

func ratio(n, of int64) float64 {
	if of <= 0 {
		return 0
	}
	return float64(n) / float64(of)
}
