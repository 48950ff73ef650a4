package ui

import (
	"errors"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/verb"
	"bromure.io/tui/ui/console"
	"bromure.io/tui/ui/dialogs"
	"bromure.io/tui/ui/kit"
	"bromure.io/tui/ui/screens"
	"bromure.io/tui/vm"
)

// Messages of the root.
type (
	ticked     struct{}
	quieted    struct{ at int } // input was quiet since the key of that number
	snapshot   struct{ s wire.Snapshot }
	lost       struct{ err error }
	planned    struct{ plan verb.Plan }
	progressed struct {
		serial int
		p      wire.Progress
	}
	finished struct {
		op   kit.Op
		last wire.Progress
		err  error
		then []kit.Intent
	}
	opened struct {
		id  vm.ID
		s   *console.Session
		err error
	}
	printed struct {
		s    *console.Session
		live bool
	}
	booted struct { // lines of a boot that is in progress
		id    vm.ID
		lines []string
		next  tea.Cmd
		end   func()
	}
)

// Update routes a message.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	if m.frame.Ready {
		m.frame.Now = m.frame.Snap.Now.Add(m.clock().Sub(m.came))
	}
	cmd := m.route(msg)
	return m, tea.Batch(cmd, m.tick())
}

func (m *model) route(msg tea.Msg) tea.Cmd {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.frame.Size = kit.Size{W: max(0, msg.Width), H: max(0, msg.Height)}
		m.fitConsoles()
		return m.changed()
	case tea.BackgroundColorMsg:
		m.frame.Theme = kit.NewTheme(kit.ModeFrom(m.getenv, msg.IsDark()), kit.PlainGlyphs(m.getenv))
	case tea.KeyPressMsg, tea.PasteMsg:
		return m.input(msg)
	case tea.MouseMsg:
		return m.mouse(msg)
	case ticked:
		m.ticking = false
	case quieted:
		if msg.at == m.quiet {
			m.holding = false
		}
	case snapshot:
		m.take(msg.s)
		return tea.Batch(m.changed(), m.enterWanted(), m.do.watch(), m.followBoots())
	case lost:
		m.frame.Lost = msg.err.Error()
		return m.do.again()
	case planned:
		return m.open(dialogs.NewPlan(msg.plan), false) // a key asked for it
	case progressed:
		for i := range m.frame.Ops {
			if op := &m.frame.Ops[i]; op.Serial == msg.serial && msg.p.Step != "" {
				op.Step = msg.p.Step
			}
		}
	case finished:
		return m.finish(msg)
	case opened:
		return m.opened(msg)
	case printed:
		if msg.live {
			return m.do.wait(msg.s)
		}
		if msg.s == m.session() {
			m.inside = false
			m.frame.Full = false
		}
	case booted:
		if w, _ := m.frame.Find(msg.id); w.State != vm.Starting {
			msg.end()
			return nil
		}
		m.frame.Serial[msg.id] = msg.lines
		return msg.next
	}
	return nil
}

// changed tells the screens that the frame is another one.
func (m *model) changed() tea.Cmd {
	s, intents := m.main.Update(m.view(), kit.Changed{})
	m.main = s.(screens.Workspaces)
	cmds := []tea.Cmd{m.carryOut(intents)}
	for i, d := range m.dialogs {
		d, intents := d.Update(m.view(), kit.Changed{})
		m.dialogs[i] = d
		cmds = append(cmds, m.carryOut(intents))
	}
	return tea.Batch(cmds...)
}

// quietFor is how long input has to pause before a dialog that opened by itself takes a key: what is being typed must not
// answer it.
const quietFor = 400 * time.Millisecond

func (m *model) open(s kit.Screen, byItself bool) tea.Cmd {
	m.dialogs = append(m.dialogs, s)
	m.holding = byItself
	if byItself {
		return m.hold()
	}
	return nil
}

func (m *model) hold() tea.Cmd {
	m.quiet++
	at := m.quiet
	return tea.Tick(quietFor, func(time.Time) tea.Msg { return quieted{at} })
}

// input routes a key or a paste: dialog first, then the console, then the main screen.
func (m *model) input(msg tea.Msg) tea.Cmd {
	m.frame.Notice = ""
	if n := len(m.dialogs); n > 0 {
		if m.holding {
			return m.hold()
		}
		d, intents := m.dialogs[n-1].Update(m.view(), msg)
		m.dialogs[n-1] = d
		return m.carryOut(intents)
	}
	if m.inside {
		return m.insideInput(msg)
	}
	s, intents := m.main.Update(m.view(), msg)
	m.main = s.(screens.Workspaces)
	cmd := m.carryOut(intents)
	m.leader = false
	return cmd
}

// mouse routes a mouse event.
func (m *model) mouse(msg tea.MouseMsg) tea.Cmd {
	f := m.view()
	if n := len(m.dialogs); n > 0 {
		d, intents := m.dialogs[n-1].Update(f, msg)
		m.dialogs[n-1] = d
		return m.carryOut(intents)
	}
	at := msg.Mouse()
	area := screens.ConsoleArea(f.Size, f.Full)
	if s := m.session(); s != nil && at.X >= area.X && at.Y >= area.Y && at.Y < area.Y+area.H {
		switch msg := msg.(type) {
		case tea.MouseWheelMsg:
			if msg.Button == tea.MouseWheelUp {
				s.Scroll(wheelLines)
			} else {
				s.Scroll(-wheelLines)
			}
		case tea.MouseClickMsg:
			m.inside = s.Ended() == ""
		}
		return nil
	}
	if _, click := msg.(tea.MouseClickMsg); click {
		m.inside = false
	}
	s, intents := m.main.Update(f, msg)
	m.main = s.(screens.Workspaces)
	return m.carryOut(intents)
}

// carryOut does what screens intend. What reaches beyond the screen is in commands.go.
func (m *model) carryOut(intents []kit.Intent) tea.Cmd {
	var cmds []tea.Cmd
	for _, i := range intents {
		cmds = append(cmds, m.carryOne(i))
	}
	return tea.Batch(cmds...)
}

func (m *model) carryOne(i kit.Intent) tea.Cmd {
	switch i := i.(type) {
	case kit.Open:
		return m.open(i.Screen, i.ByItself)
	case kit.Close:
		if n := len(m.dialogs); n > 0 {
			m.dialogs = m.dialogs[:n-1]
		}
	case kit.Note:
		m.frame.Notice = i.Text
	case kit.Select:
		m.main = m.main.With(i.ID)
		m.fitConsoles()
		if w, ok := m.frame.Find(i.ID); m.leader && ok && m.frame.Allows(w, verb.Attach) == nil {
			return m.enter(i.ID, false)
		}
	case kit.EnterConsole:
		return m.enter(i.ID, i.More)
	case kit.NextTab:
		m.nextTab(i.By)
	case kit.ToggleFull:
		m.frame.Full = !m.frame.Full
		m.fitConsoles()
	case kit.Press:
		return m.press(i)
	case kit.ConfirmQuit:
		return m.confirmQuit()
	case kit.Quit:
		return m.quit()
	case kit.Suspend:
		return tea.Suspend
	case kit.CarryOut:
		if s := i.Plan.Subject; s.Kind == "workspace" {
			if _, there := m.frame.Find(vm.ID(s.ID)); !there {
				return m.fail("Nothing was removed", fmt.Errorf("“%s” no longer exists", s.Name))
			}
		}
		return m.begin(kit.Op{Verb: i.Plan.Verb, ID: vm.ID(ifWorkspace(i.Plan.Subject)), What: i.Plan.Words(m.frame.Now).Title}, i)
	case kit.DoVerb:
		row, _ := verb.Find(i.Verb)
		op := kit.Op{Verb: i.Verb, ID: i.ID, What: row.Title}
		if i.What != "" {
			op.What = fmt.Sprintf("%s: %s", i.What, strings.ToLower(row.Title))
		}
		if i.Verb == verb.Start {
			m.entering = i.ID
		}
		return m.begin(op, i)
	case kit.CreateWorkspace:
		return m.begin(kit.Op{Verb: verb.Create, What: "Create " + i.Want.Name}, i)
	case kit.AskPlan:
		return m.begin(kit.Op{Verb: i.Verb, What: "Look at what it has"}, i)
	}
	return nil
}

func ifWorkspace(s verb.Subject) string {
	if s.Kind == "workspace" {
		return s.ID
	}
	return ""
}

// press is a key of the main screen that the finder runs. The selection must not have changed meanwhile.
func (m *model) press(p kit.Press) tea.Cmd {
	f := m.view()
	if p.ID != m.main.Selected() {
		return m.fail("Nothing was done", errors.New("the workspace that was selected no longer exists"))
	}
	for _, b := range m.main.Keys(f) {
		if b.Action != p.Action {
			continue
		}
		if b.Off != nil {
			m.frame.Notice = b.Why()
			return nil
		}
		s, intents := m.main.Act(f, p.Action, "")
		m.main = s.(screens.Workspaces)
		return m.carryOut(intents)
	}
	return nil
}

// begin notes an operation and starts it.
func (m *model) begin(op kit.Op, i kit.Intent) tea.Cmd {
	op.Serial, op.Begun = m.do.next(), m.frame.Now
	m.frame.Ops = append(m.frame.Ops[:len(m.frame.Ops):len(m.frame.Ops)], op)
	return m.do.run(op, i)
}

func (m *model) finish(msg finished) tea.Cmd {
	var rest []kit.Op
	for _, op := range m.frame.Ops {
		if op.Serial != msg.op.Serial {
			rest = append(rest, op)
		}
	}
	m.frame.Ops = rest
	if msg.last.NewPlan != nil {
		return m.open(dialogs.NewChangedPlan(*msg.last.NewPlan), true)
	}
	if msg.err != nil {
		if m.entering == msg.op.ID {
			m.entering = ""
		}
		return m.fail(msg.op.What, msg.err)
	}
	if w := msg.last.Workspace; w != nil && msg.op.Verb == verb.Create {
		m.main = m.main.With(w.ID)
		m.frame.Notice = fmt.Sprintf("created %s", kit.Cut(string(w.Name), 40))
	}
	if msg.op.Verb == verb.Start {
		return m.enterWanted()
	}
	return m.carryOut(msg.then)
}

func (m *model) confirmQuit() tea.Cmd {
	running := 0
	for _, w := range m.frame.Snap.Workspaces {
		if w.State == vm.Running || w.State == vm.Starting {
			running++
		}
	}
	if running == 0 && len(m.frame.Ops) == 0 {
		return m.quit()
	}
	return m.open(dialogs.NewQuit(running, len(m.frame.Ops)), false)
}

// quit leaves. Machines and what runs in them go on.
func (m *model) quit() tea.Cmd {
	m.hangUp()
	return tea.Quit
}

// hangUp closes every console that is open here.
func (m *model) hangUp() {
	for _, t := range m.consoles {
		for _, s := range t.list {
			s.Close()
		}
	}
}
