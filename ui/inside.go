package ui

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"

	"bromure.io/tui/internal/verb"
	"bromure.io/tui/ui/kit"
	"bromure.io/tui/ui/screens"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/guest"
)

// wheelLines is how far a notch of the wheel scrolls a console.
const wheelLines = 3

// defaultLeader leaves a console and never reaches the guest.
const defaultLeader = "ctrl+]"

// insideKeys are the keys that do not go to the guest.
func (m *model) insideKeys() kit.Keys {
	leader := m.do.leader
	return kit.Keys{
		kit.B("leave", 1, leader, "leave the console", "Leave the console", leader),
		kit.B("switch", 2, leader+" 1–9 ] [ -", "into another one", "Into another workspace's console"),
		kit.B("back", 3, "shift+pgup", "scroll back", "Scroll back", "shift+pgup"),
		kit.B("forward", 0, "shift+pgdown", "scroll forward", "Scroll forward", "shift+pgdown"),
	}
}

// withFooter replaces the last line of a screen.
func withFooter(screen, footer string) string {
	if i := strings.LastIndexByte(screen, '\n'); i >= 0 {
		return screen[:i+1] + footer
	}
	return screen
}

// insideInput is a key or a paste while the console has the keys.
func (m *model) insideInput(msg tea.Msg) tea.Cmd {
	s := m.session()
	if s == nil {
		m.inside = false
		return nil
	}
	switch msg := msg.(type) {
	case tea.PasteMsg:
		s.Paste(msg.Content)
	case tea.KeyPressMsg:
		page := max(1, screens.ConsoleArea(m.frame.Size, m.frame.Full).H-1)
		switch b, _ := m.insideKeys().Find(msg); b.Action {
		case "leave":
			m.inside, m.leader, m.frame.Full = false, true, false
			m.fitConsoles()
		case "back":
			s.Scroll(page)
		case "forward":
			s.Scroll(-page)
		default:
			s.Press(msg)
		}
	}
	return nil
}

// enter goes into a console of a workspace: the one that is open here, else a new one.
func (m *model) enter(id vm.ID, more bool) tea.Cmd {
	w, ok := m.frame.Find(id)
	if !ok {
		return nil
	}
	m.main = m.main.With(id)
	if why := m.frame.Allows(w, verb.Attach); why != nil {
		m.frame.Notice = kit.Bind{Off: why}.Why()
		return nil
	}
	t := m.consoles[id]
	if t == nil {
		t = &tabs{active: -1}
		m.consoles[id] = t
	}
	if !more && len(t.list) > 0 {
		t.active = max(0, t.active)
		if s := t.current(); s.Ended() == "" {
			m.inside = true
			m.fitConsoles()
			return nil
		}
		name := t.current().Name
		t.list = append(t.list[:t.active:t.active], t.list[t.active+1:]...)
		return m.openConsole(id, name)
	}
	name := guest.DefaultConsole
	if len(t.list) > 0 {
		name = t.freeName()
	}
	return m.openConsole(id, name)
}

// freeName is a name for another console.
func (t *tabs) freeName() string {
	taken := map[string]bool{}
	for _, s := range t.list {
		taken[s.Name] = true
	}
	for n := 2; ; n++ {
		if name := fmt.Sprintf("console-%d", n); !taken[name] {
			return name
		}
	}
}

func (m *model) openConsole(id vm.ID, name string) tea.Cmd {
	area := screens.ConsoleArea(m.frame.Size, m.frame.Full)
	return m.do.attach(id, name, area.W, area.H)
}

func (m *model) opened(msg opened) tea.Cmd {
	if msg.err != nil {
		return m.fail("Open a console", msg.err)
	}
	t := m.consoles[msg.id]
	if t == nil { // the workspace went meanwhile
		msg.s.Close()
		return nil
	}
	t.list = append(t.list, msg.s)
	t.active = len(t.list) - 1
	if msg.id == m.main.Selected() && len(m.dialogs) == 0 {
		m.inside = true
	}
	m.fitConsoles()
	return m.do.wait(msg.s)
}

// enterWanted goes into the console of a machine that was started here, once it runs, unless the user went elsewhere.
func (m *model) enterWanted() tea.Cmd {
	w, ok := m.frame.Find(m.entering)
	if !ok || w.State != vm.Running {
		return nil
	}
	id := m.entering
	m.entering = ""
	if id != m.main.Selected() || m.inside || len(m.dialogs) > 0 {
		return nil
	}
	return m.enter(id, false)
}

// nextTab goes around the consoles of the selected workspace, with its overview as one of them.
func (m *model) nextTab(by int) {
	t := m.consoles[m.main.Selected()]
	if t == nil {
		return
	}
	n := len(t.list) + 1
	t.active = ((t.active+1+by)%n+n)%n - 1
	m.fitConsoles()
}

// fitConsoles gives the console that is shown the size of its place.
func (m *model) fitConsoles() {
	if s := m.session(); s != nil && !screens.Tiny(m.frame.Size) {
		area := screens.ConsoleArea(m.frame.Size, m.frame.Full)
		s.Resize(area.W, area.H)
	}
}

// followBoots reads the serial console of machines that were started here, while they start.
func (m *model) followBoots() tea.Cmd {
	var cmds []tea.Cmd
	for _, w := range m.frame.Snap.Workspaces {
		if _, known := m.frame.Serial[w.ID]; w.State == vm.Starting && !known {
			m.frame.Serial[w.ID] = []string{}
			cmds = append(cmds, m.do.followBoot(w.ID))
		}
	}
	return tea.Batch(cmds...)
}
