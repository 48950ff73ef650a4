// Package ui is the TUI: one model that routes messages to the dialog on top, else to the console that has the keys,
// else to the main screen. Screens answer with intents; commands.go alone turns them into effects.
//
// Nothing here stops a machine by being left. Read model.go first, then route.go and commands.go.
package ui

import (
	"time"

	"charm.land/lipgloss/v2"

	tea "charm.land/bubbletea/v2"

	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/ui/console"
	"bromure.io/tui/ui/dialogs"
	"bromure.io/tui/ui/kit"
	"bromure.io/tui/ui/screens"
	"bromure.io/tui/vm"
)

// model is the root. Update is its only writer.
type model struct {
	do     *commands // the effects
	getenv func(string) string
	clock  func() time.Time // only differences count: how long the newest snapshot is here
	came   time.Time        // when it came

	frame   kit.Frame
	main    screens.Workspaces
	dialogs []kit.Screen

	consoles map[vm.ID]*tabs
	inside   bool  // keys go to the console of the selected workspace
	leader   bool  // the leader key was the last one: a key that switches goes into that console
	entering vm.ID // its console is wanted as soon as it runs

	quiet   int  // counts keys, to know whether input was quiet
	holding bool // the top dialog opened by itself and takes no key yet
	ticking bool
}

// tabs are the consoles of one workspace that are open here.
type tabs struct {
	list   []*console.Session
	active int // -1: the overview is shown
}

func (t *tabs) current() *console.Session {
	if t == nil || t.active < 0 || t.active >= len(t.list) {
		return nil
	}
	return t.list[t.active]
}

func newModel(do *commands, getenv func(string) string, clock func() time.Time) *model {
	return &model{
		do: do, getenv: getenv, clock: clock, main: screens.New(), consoles: map[vm.ID]*tabs{},
		frame: kit.Frame{
			Theme:  kit.NewTheme(kit.ModeFrom(getenv, true), kit.PlainGlyphs(getenv)),
			Loads:  map[vm.ID]*kit.Load{},
			Serial: map[vm.ID][]string{},
		},
	}
}

// Init asks for the state and for the terminal's background.
func (m *model) Init() tea.Cmd { return tea.Batch(m.do.watch(), tea.RequestBackgroundColor) }

// session is the console that is shown; nil: the overview is.
func (m *model) session() *console.Session { return m.consoles[m.main.Selected()].current() }

// view is the frame with what is shown of the console.
func (m *model) view() *kit.Frame {
	f := m.frame
	f.Console = nil
	if s := m.session(); s != nil {
		t := m.consoles[m.main.Selected()]
		lines, back, _ := s.View()
		c := &kit.ConsoleView{Active: t.active, Lines: lines, Back: back, Focused: m.inside}
		for _, tab := range t.list {
			c.Tabs = append(c.Tabs, tab.Name)
		}
		c.Ended = m.whyEnded(s)
		f.Console = c
	}
	f.Full = f.Full && f.Console != nil
	return &f
}

// whyEnded is the line below a console from which nothing comes any more, with the key that helps.
func (m *model) whyEnded(s *console.Session) string {
	if s.Ended() == "" {
		return ""
	}
	w, _ := m.frame.Find(m.main.Selected())
	switch w.State {
	case vm.Running:
		return "this console has ended; enter opens it again"
	case vm.Off, vm.Broken:
		return "the machine is " + string(w.State) + "; s starts it"
	}
	return "the machine is " + string(w.State)
}

// View draws the frame.
func (m *model) View() tea.View {
	f := m.view()
	v := tea.NewView(m.content(f))
	v.AltScreen = true
	v.MouseMode = tea.MouseModeCellMotion
	v.WindowTitle = "bromure"
	if m.inside && len(m.dialogs) == 0 && !screens.Tiny(f.Size) {
		if s := m.session(); s != nil {
			area := screens.ConsoleArea(f.Size, f.Full)
			if _, _, at := s.View(); at != nil && at.X < area.W && at.Y < area.H {
				v.Cursor = tea.NewCursor(area.X+at.X, area.Y+at.Y)
				v.Cursor.Blink = false
			}
		}
	}
	return v
}

func (m *model) content(f *kit.Frame) string {
	if f.Size.W <= 0 || f.Size.H <= 0 {
		return ""
	}
	base := m.main.View(f)
	if screens.Tiny(f.Size) {
		return base
	}
	if len(m.dialogs) == 0 {
		if m.inside {
			base = withFooter(base, m.insideKeys().Footer(f.Theme, f.Size.W))
		}
		return base
	}
	base = withFooter(base, m.dialogs[len(m.dialogs)-1].Keys(f).Footer(f.Theme, f.Size.W))
	box := m.dialogs[len(m.dialogs)-1].View(f)
	x, y := max(0, (f.Size.W-lipgloss.Width(box))/2), max(0, (f.Size.H-lipgloss.Height(box))/3)
	return kit.Overlay(base, box, x, y)
}

// tickEvery is how often ages and durations on the screen go on by themselves.
const tickEvery = time.Second

// tick arms the clock while something on the screen lasts.
func (m *model) tick() tea.Cmd {
	if m.ticking || !m.lasts() {
		return nil
	}
	m.ticking = true
	return tea.Tick(tickEvery, func(time.Time) tea.Msg { return ticked{} })
}

func (m *model) lasts() bool {
	if len(m.frame.Ops) > 0 {
		return true
	}
	for _, w := range m.frame.Snap.Workspaces {
		if w.State != vm.Off && w.State != vm.Broken {
			return true
		}
	}
	return false
}

// take takes a new snapshot in.
func (m *model) take(s wire.Snapshot) {
	m.frame.Snap, m.frame.Now, m.frame.Ready, m.frame.Lost = s, s.Now, true, ""
	m.came = m.clock()
	seen := map[vm.ID]bool{}
	for _, w := range s.Workspaces {
		seen[w.ID] = true
		if w.State != vm.Starting {
			delete(m.frame.Serial, w.ID)
		}
		if w.Stats == nil {
			delete(m.frame.Loads, w.ID)
			continue
		}
		if m.frame.Loads[w.ID] == nil {
			m.frame.Loads[w.ID] = &kit.Load{}
		}
		m.frame.Loads[w.ID].Push(*w.Stats)
	}
	for id, t := range m.consoles {
		if !seen[id] {
			for _, s := range t.list {
				s.Close()
			}
			delete(m.consoles, id)
			delete(m.frame.Loads, id)
		}
	}
}

// fail shows an error where it happened: on top of everything, until it was seen.
func (m *model) fail(what string, err error) tea.Cmd {
	return m.open(dialogs.NewError(what, err), true)
}
