// Package screens has the screens of the TUI: the workspaces with what they do, the form that makes one, the finder and
// help. They are pure functions of the frame and of keys. Read workspaces.go first, then layout.go.
package screens

import (
	"errors"

	tea "charm.land/bubbletea/v2"

	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/internal/verb"
	"bromure.io/tui/ui/kit"
	"bromure.io/tui/vm"
)

// Workspaces is the main screen: the list, and beside it the selected workspace's console or its overview.
type Workspaces struct {
	list
	typing bool // the filter
	detail bool // on a narrow screen: the overview instead of the list
	scroll int  // of the overview
}

// New is the main screen.
func New() Workspaces { return Workspaces{} }

// Selected is the ID of the selected workspace, empty when there is none.
func (s Workspaces) Selected() vm.ID { return s.selected }

// With is the screen with another workspace selected.
func (s Workspaces) With(id vm.ID) Workspaces {
	s.choose(id)
	s.scroll = 0
	return s
}

// Actions of the main screen.
const (
	ActUp      kit.Action = "up"
	ActDown    kit.Action = "down"
	ActTop     kit.Action = "top"
	ActBottom  kit.Action = "bottom"
	ActNumber  kit.Action = "number"
	ActNext    kit.Action = "next"
	ActPrev    kit.Action = "previous"
	ActLast    kit.Action = "last"
	ActEnter   kit.Action = "console"
	ActMore    kit.Action = "new console"
	ActTab     kit.Action = "tab"
	ActBackTab kit.Action = "back-tab"
	ActFull    kit.Action = "full screen"
	ActStart   kit.Action = "start"
	ActStop    kit.Action = "stop"
	ActKill    kit.Action = "kill"
	ActReboot  kit.Action = "reboot"
	ActCreate  kit.Action = "create"
	ActReset   kit.Action = "reset"
	ActErase   kit.Action = "erase home"
	ActDelete  kit.Action = "delete"
	ActBuild   kit.Action = "build image"
	ActPrune   kit.Action = "prune images"
	ActFilter  kit.Action = "filter"
	ActSort    kit.Action = "sort"
	ActFind    kit.Action = "go to"
	ActHelp    kit.Action = "help"
	ActQuit    kit.Action = "quit"
	ActSuspend kit.Action = "suspend"
	ActBack    kit.Action = "back"
	ActPgUp    kit.Action = "page up"
	ActPgDown  kit.Action = "page down"
	ActShow    kit.Action = "overview"
)

// Keys are those of the main screen for the selected workspace.
func (s Workspaces) Keys(f *kit.Frame) kit.Keys {
	if s.typing {
		return kit.Keys{
			kit.B("keep", 1, "enter", "keep the filter", "Keep the filter", "enter"),
			kit.B("clear", 1, "esc", "show all", "Show all again", "esc"),
		}
	}
	w, ok := f.Find(s.selected)
	can := func(v verb.Verb) error {
		switch {
		case f.Lost != "":
			return problem.New(problem.Unreachable, "the daemon does not answer", "")
		case !ok:
			return errors.New("no workspace is selected")
		}
		if op, busy := f.OpOf(w.ID); busy {
			if !(op.Verb != verb.Kill && v == verb.Kill) {
				return errors.New(string(op.Verb) + " is still in progress")
			}
		}
		return f.Allows(w, v)
	}
	return append(kit.Keys{
		kit.B(ActEnter, 1, "enter", "console", "Go into its console", "enter").OffIf(can(verb.Attach)),
		kit.B(ActStart, 1, "s", "start", "Start its machine", "s").OffIf(can(verb.Start)),
		kit.B(ActStop, 2, "s", "stop", "Stop its machine in good order", "s").OffIf(can(verb.Stop)),
		kit.B(ActCreate, 1, "n", "new", "Create a workspace", "n").OffIf(reachable(f)),
		kit.B(ActFind, 2, "ctrl+p", "go to…", "Find a workspace or an action by a few letters", "ctrl+p"),
		kit.B(ActFilter, 4, "/", "filter", "Show only names with these letters", "/"),
		kit.B(ActReboot, 7, "r", "reboot", "Restart its system", "r").OffIf(can(verb.Reboot)),
		kit.B(ActKill, 7, "K", "kill", "End its machine at once, as a power cut does", "K").OffIf(can(verb.Kill)),
		kit.B(ActReset, 6, "R", "reset", "Reset its system disk to the base image", "R").OffIf(can(verb.Reset)),
		kit.B(ActErase, 6, "H", "erase home", "Erase its home", "H").OffIf(can(verb.EraseHome)),
		kit.B(ActDelete, 5, "D", "delete", "Delete it with everything that it has", "D").OffIf(can(verb.Delete)),
		kit.B(ActMore, 8, "c", "new console", "Open another console in it", "c").OffIf(can(verb.Attach)),
		kit.B(ActTab, 8, "tab", "next console", "Show its next console, or the overview", "tab").OffIf(s.tabs(f)),
		kit.B(ActBackTab, 0, "shift+tab", "previous console", "Show its previous console", "shift+tab").OffIf(s.tabs(f)),
		kit.B(ActFull, 8, "f", "full screen", "Give the console the whole screen", "f").OffIf(can(verb.Attach)),
	}, s.moves(f)...)
}

// moves are the keys that go somewhere and change nothing.
func (s Workspaces) moves(f *kit.Frame) kit.Keys {
	some := func() error {
		if len(s.shown) == 0 {
			return errors.New("the list is empty")
		}
		return nil
	}()
	var back, show error
	if !s.detail {
		back = errors.New("this is the first screen")
	}
	if s.detail || !narrow(f.Size) {
		show = errors.New("the overview is on the screen")
	}
	return kit.Keys{
		kit.B(ActShow, 3, "i", "overview", "Show all about it", "i", "right", "l").OffIf(show),
		kit.B(ActBack, 3, "esc", "list", "Back to the list; without a filter", "esc", "left", "h").OffIf(back),
		kit.B(ActUp, 0, "↑ k", "up", "Select the one above", "up", "k").OffIf(some),
		kit.B(ActDown, 0, "↓ j", "down", "Select the one below", "down", "j").OffIf(some),
		kit.B(ActTop, 0, "home g", "first", "Select the first", "home", "g").OffIf(some),
		kit.B(ActBottom, 0, "end G", "last row", "Select the last of the list", "end", "G").OffIf(some),
		kit.B(ActNumber, 0, "1–9", "by number", "Select by number; right after the leader key: into its console", "1", "2", "3", "4", "5", "6", "7", "8", "9").OffIf(some),
		kit.B(ActNext, 0, "]", "next", "The next workspace, also right after the leader key", "]").OffIf(some),
		kit.B(ActPrev, 0, "[", "previous", "The previous workspace, also right after the leader key", "[").OffIf(some),
		kit.B(ActLast, 0, "-", "last", "The workspace that was selected before", "-").OffIf(some),
		kit.B(ActPgUp, 0, "pgup", "scroll up", "Scroll the overview up", "pgup"),
		kit.B(ActPgDown, 0, "pgdown", "scroll down", "Scroll the overview down", "pgdown"),
		kit.B(ActSort, 9, "o", "sort", "Sort by name, state or last use", "o"),
		kit.B(ActBuild, 0, "B", "build image", "Build a base image", "B").OffIf(reachable(f)),
		kit.B(ActPrune, 0, "P", "prune images", "Delete the base images that no workspace uses", "P").OffIf(reachable(f)),
		kit.B(ActSuspend, 0, "ctrl+z", "suspend", "Back to the shell; fg returns", "ctrl+z"),
		kit.B(ActHelp, 1, "?", "help", "Show every key", "?"),
		kit.B(ActQuit, 2, "q", "quit", "Leave; machines go on running", "q", "ctrl+c"),
	}
}

func reachable(f *kit.Frame) error {
	if f.Lost != "" {
		return problem.New(problem.Unreachable, "the daemon does not answer", "")
	}
	return nil
}

func (s Workspaces) tabs(f *kit.Frame) error {
	if f.Console == nil {
		return errors.New("no console of it is open here")
	}
	return nil
}

// Update answers keys.
func (s Workspaces) Update(f *kit.Frame, msg tea.Msg) (kit.Screen, []kit.Intent) {
	s.sync(f)
	switch msg := msg.(type) {
	case kit.Changed:
	case tea.PasteMsg:
		if s.typing {
			s.filter += kit.Cut(msg.Content, maxFilter)
			s.sync(f)
		}
	case tea.MouseWheelMsg:
		if msg.Button == tea.MouseWheelUp {
			s.choose(s.at(s.row() - 1))
		} else {
			s.choose(s.at(s.row() + 1))
		}
	case tea.MouseClickMsg:
		if id := s.hit(f, msg.X, msg.Y); id != "" {
			s = s.With(id)
		}
	case tea.KeyPressMsg:
		if s.typing {
			return s.typeFilter(f, msg), nil
		}
		return s.press(f, msg)
	}
	s.top = kit.Window(s.top, max(0, s.row()), len(s.shown), layoutOf(f).rows)
	return s, nil
}

const maxFilter = 40

func (s Workspaces) typeFilter(f *kit.Frame, msg tea.KeyPressMsg) Workspaces {
	switch runes := []rune(s.filter); {
	case msg.String() == "esc":
		s.filter, s.typing = "", false
	case msg.String() == "enter":
		s.typing = false
	case msg.String() == "backspace" && len(runes) > 0:
		s.filter = string(runes[:len(runes)-1])
	case msg.Text != "" && len(runes) < maxFilter:
		s.filter += msg.Text
	}
	s.sync(f)
	return s
}

func (s Workspaces) press(f *kit.Frame, msg tea.KeyPressMsg) (kit.Screen, []kit.Intent) {
	if msg.String() == "esc" && s.filter != "" {
		s.filter = ""
		s.sync(f)
		return s, nil
	}
	var off *kit.Bind
	for _, b := range s.Keys(f) { // two bindings may share a key: the one that is on has it
		if _, ok := (kit.Keys{b}).Find(msg); !ok {
			continue
		}
		if b.Off == nil {
			return s.Act(f, b.Action, msg.String())
		}
		if off == nil {
			off = &b
		}
	}
	if off != nil {
		return s, []kit.Intent{kit.Note{Text: off.Why()}}
	}
	return s, nil
}

// subject is the selected workspace.
func (s Workspaces) subject(f *kit.Frame) wire.Workspace {
	w, _ := f.Find(s.selected)
	return w
}
