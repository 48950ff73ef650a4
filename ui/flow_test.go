package ui

import (
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/verb"
	"bromure.io/tui/ui/dialogs"
	"bromure.io/tui/ui/kit"
	"bromure.io/tui/vm"
)

func (m *model) resize(s kit.Size) { m.Update(tea.WindowSizeMsg{Width: s.W, Height: s.H}) }

func (m *model) text() string { return ansi.Strip(m.View().Content) }

func newFixed() *model { return fixed(kit.Size{W: 120, H: 40}, kit.NoColor) }

// without is the fixture without some workspaces, and with others before all.
func without(ids ...vm.ID) wire.Snapshot {
	s := fixture()
	s.Workspaces = slices.DeleteFunc(s.Workspaces, func(w wire.Workspace) bool { return slices.Contains(ids, w.ID) })
	return s
}

// TestListChangesUnderADialog is field case F70: what the dialog named is what goes, by its ID, whatever the list does.
func TestListChangesUnderADialog(t *testing.T) {
	m := newFixed()
	m.types("4")
	m.Update(planned{plan(verb.Delete)}) // of scratch
	s := without(id("1"), id("2"))
	s.Workspaces = append([]wire.Workspace{workspace("9", "aa", vm.Off), workspace("8", "aaa", vm.Off)}, s.Workspaces...)
	m.Update(snapshot{s})
	if m.main.Selected() != id("7") {
		t.Errorf("the selection went to %s", m.main.Selected())
	}
	if !strings.Contains(m.text(), "Delete the workspace “scratch”") {
		t.Errorf("the dialog names something else:\n%s", m.text())
	}
	m.types("enter") // nothing is typed: it is off
	if len(m.frame.Ops) != 0 {
		t.Fatal("enter without the name deleted something")
	}
	m.write("scratch")
	m.types("enter", "enter")
	if len(m.frame.Ops) != 1 || m.frame.Ops[0].ID != id("7") || m.frame.Ops[0].Verb != verb.Delete {
		t.Errorf("operations after confirming twice: %+v", m.frame.Ops)
	}
}

// TestSubjectGone is the other half of F70: deleted and made anew meanwhile, it has another ID.
func TestSubjectGone(t *testing.T) {
	m := newFixed()
	m.Update(planned{plan(verb.Delete)})
	s := without(id("7"))
	s.Workspaces = append(s.Workspaces, workspace("9", "scratch", vm.Off))
	m.Update(snapshot{s})
	m.write("scratch")
	m.types("enter")
	if len(m.frame.Ops) != 0 {
		t.Errorf("operations: %+v", m.frame.Ops)
	}
	if !strings.Contains(m.text(), "no longer exists") {
		t.Errorf("it does not say so:\n%s", m.text())
	}
}

func TestSelectionFollowsTheID(t *testing.T) {
	m := newFixed()
	m.types("3")
	for _, gone := range [][]vm.ID{{id("1")}, {id("1"), id("2"), id("4")}} {
		m.Update(snapshot{without(gone...)})
		if m.main.Selected() != id("3") {
			t.Errorf("without %v: %s", gone, m.main.Selected())
		}
	}
	m.Update(snapshot{without(id("3"))})
	if m.main.Selected() != id("7") {
		t.Errorf("after it went: %s, want the one below", m.main.Selected())
	}
}

func TestSwitching(t *testing.T) {
	m := newFixed()
	for _, step := range []struct{ key, want string }{
		{"2", "2"}, {"]", "3"}, {"[", "2"}, {"-", "3"}, {"-", "2"}, {"G", "6"}, {"]", "1"}, {"[", "6"}, {"g", "1"}, {"down", "2"}, {"k", "1"}, {"up", "1"}, {"9", "1"},
	} {
		m.types(step.key)
		if m.main.Selected() != id(step.want) {
			t.Fatalf("%s: %s, want %s", step.key, m.main.Selected(), step.want)
		}
	}
	m.types("ctrl+p")
	m.write("scr")
	m.types("enter")
	if m.main.Selected() != id("7") || len(m.dialogs) != 0 {
		t.Errorf("the finder went to %s", m.main.Selected())
	}
}

func TestVerbs(t *testing.T) {
	for _, c := range []struct {
		at, key string
		want    verb.Verb
	}{
		{"1", "s", verb.Stop}, {"4", "s", verb.Start}, {"1", "r", verb.Reboot}, {"4", "R", verb.Reset}, {"4", "H", verb.EraseHome}, {"4", "D", verb.Delete},
		{"1", "B", verb.ImageBuild}, {"1", "P", verb.ImagePrune},
	} {
		m := newFixed()
		m.types(c.at, c.key)
		if len(m.frame.Ops) != 1 || m.frame.Ops[0].Verb != c.want {
			t.Errorf("%s on %s: %+v", c.key, c.at, m.frame.Ops)
		}
	}
	for _, c := range []struct{ at, key, why string }{
		{"1", "D", "it is running"}, {"4", "r", "it is not running"}, {"5", "s", "marked compromised"}, {"4", "enter", "it is off"},
	} {
		m := newFixed()
		m.types(c.at, c.key)
		if len(m.frame.Ops) != 0 || !strings.Contains(m.text(), c.why) {
			t.Errorf("%s on %s: %+v, the footer says %q", c.key, c.at, m.frame.Ops, m.frame.Notice)
		}
	}
}

func TestKillAsksWithNoChosen(t *testing.T) {
	m := newFixed()
	m.types("K", "enter")
	if len(m.frame.Ops) != 0 {
		t.Fatal("enter killed it")
	}
	m.types("K", "tab", "enter")
	if len(m.frame.Ops) != 1 || m.frame.Ops[0].Verb != verb.Kill || m.frame.Ops[0].ID != id("1") {
		t.Errorf("%+v", m.frame.Ops)
	}
}

func TestWayBackAsksWithNoChosen(t *testing.T) {
	m := newFixed()
	m.Update(planned{plan(verb.Reset, "checkpoint 1")})
	m.types("enter")
	if len(m.frame.Ops) != 0 || len(m.dialogs) != 0 {
		t.Fatalf("enter did it: %+v", m.frame.Ops)
	}
	m.Update(planned{plan(verb.Reset, "checkpoint 1")})
	m.types("tab", "enter")
	if len(m.frame.Ops) != 1 || m.frame.Ops[0].Verb != verb.Reset {
		t.Errorf("%+v", m.frame.Ops)
	}
}

// TestPlanOutOfDate: the daemon refuses a plan that no longer fits; the new one is shown, and is not answered by what is being typed.
func TestPlanOutOfDate(t *testing.T) {
	m := newFixed()
	newer := plan(verb.Reset, "checkpoint 1")
	m.Update(finished{op: kit.Op{What: "x"}, last: wire.Progress{NewPlan: &newer}, err: errNoDaemon})
	if len(m.dialogs) != 1 || !strings.Contains(m.text(), "it has changed meanwhile") {
		t.Fatalf("%s", m.text())
	}
	m.types("tab", "enter")
	if len(m.frame.Ops) != 0 || len(m.dialogs) != 1 {
		t.Fatal("keys that were on their way answered it")
	}
	m.Update(quieted{m.quiet - 1}) // a pause that a key has ended
	m.types("tab")
	if !m.holding {
		t.Fatal("a pause that was none let keys in")
	}
	m.Update(quieted{m.quiet})
	m.types("tab", "enter")
	if len(m.frame.Ops) != 1 {
		t.Errorf("after the pause it cannot be answered: %+v", m.frame.Ops)
	}
}

func TestErrorStaysUntilSeen(t *testing.T) {
	m := newFixed()
	m.Update(finished{op: kit.Op{What: "scratch: start"}, err: errNoDaemon})
	m.Update(snapshot{fixture()})
	m.types("enter")
	if !strings.Contains(m.text(), errNoDaemon.Error()) {
		t.Fatal("it went by itself")
	}
	m.Update(quieted{m.quiet})
	m.types("enter")
	if strings.Contains(m.text(), errNoDaemon.Error()) {
		t.Error("it stays after it was seen")
	}
}

func TestQuitStopsNothing(t *testing.T) {
	m := newFixed()
	m.types("q")
	if !strings.Contains(m.text(), "go on running") {
		t.Fatalf("%s", m.text())
	}
	m.types("esc")
	if len(m.dialogs) != 0 {
		t.Error("esc does not stay")
	}
	m.types("q", "tab")
	_, cmd := m.Update(key("enter"))
	if cmd == nil || len(m.frame.Ops) != 0 {
		t.Errorf("operations at the end: %+v", m.frame.Ops)
	}
}

func TestForm(t *testing.T) {
	m := newFixed()
	m.types("n")
	m.write("API-server") // folded, that name is taken
	m.types("enter")
	if len(m.dialogs) != 1 || !strings.Contains(m.text(), "there is a workspace called") {
		t.Fatalf("%s", m.text())
	}
	m.write("2")
	m.types("tab")
	m.write("900")
	if !strings.Contains(m.text(), "a number from 1 to") {
		t.Errorf("900 CPUs pass:\n%s", m.text())
	}
	m.types("ctrl+u", "enter")
	if len(m.frame.Ops) != 1 || m.frame.Ops[0].Verb != verb.Create {
		t.Errorf("%+v", m.frame.Ops)
	}
}

// TestAges: time goes on between snapshots, by the clock's difference and not by the number of ticks.
func TestAges(t *testing.T) {
	m := newFixed()
	at := now
	m.clock = func() time.Time { return at }
	m.Update(snapshot{fixture()})
	at = at.Add(3 * time.Minute)
	m.Update(ticked{})
	if !strings.Contains(m.text(), "3h 15m") {
		t.Errorf("%s", m.text())
	}
}

func TestPlansScroll(t *testing.T) {
	m := fixed(kit.Size{W: 80, H: 24}, kit.NoColor)
	m.Update(planned{longPlan()})
	if strings.Contains(m.text(), "This stays") || !strings.Contains(m.text(), "There is no way back.") {
		t.Fatalf("the question has to stay:\n%s", m.text())
	}
	for range 200 {
		m.types("pgdown")
	}
	if !strings.Contains(m.text(), "shared host folders") {
		t.Errorf("the end is never seen:\n%s", m.text())
	}
	if _, ok := m.dialogs[0].(dialogs.Plan); !ok {
		t.Error("another dialog")
	}
}
