package screens

import (
	"bromure.io/tui/internal/verb"
	"bromure.io/tui/ui/dialogs"
	"bromure.io/tui/ui/kit"
	"bromure.io/tui/vm"
)

// verbs are the actions that are verbs of the catalogue on the selected workspace.
var verbs = map[kit.Action]verb.Verb{
	ActStart: verb.Start, ActStop: verb.Stop, ActReboot: verb.Reboot, ActKill: verb.Kill,
	ActReset: verb.Reset, ActErase: verb.EraseHome, ActDelete: verb.Delete,
	ActBuild: verb.ImageBuild, ActPrune: verb.ImagePrune,
}

// Act does what a key that is on does; key is which one of several it was.
func (s Workspaces) Act(f *kit.Frame, a kit.Action, key string) (kit.Screen, []kit.Intent) {
	if v, ok := verbs[a]; ok {
		return s, s.doVerb(f, v)
	}
	if next, ok := s.move(f, a, key); ok {
		next.top = kit.Window(next.top, max(0, next.row()), len(next.shown), layoutOf(f).rows)
		if next.selected == s.selected {
			return next, nil
		}
		return next, []kit.Intent{kit.Select{ID: next.selected}}
	}
	switch a {
	case ActEnter:
		return s, []kit.Intent{kit.EnterConsole{ID: s.selected}}
	case ActMore:
		return s, []kit.Intent{kit.EnterConsole{ID: s.selected, More: true}}
	case ActFull:
		return s, []kit.Intent{kit.EnterConsole{ID: s.selected}, kit.ToggleFull{}}
	case ActTab:
		return s, []kit.Intent{kit.NextTab{By: 1}}
	case ActBackTab:
		return s, []kit.Intent{kit.NextTab{By: -1}}
	case ActCreate:
		return s, []kit.Intent{kit.Open{Screen: NewForm(f)}}
	case ActFind:
		return s, []kit.Intent{kit.Open{Screen: NewFinder(s)}}
	case ActHelp:
		return s, []kit.Intent{kit.Open{Screen: NewHelp(s.Keys(f))}}
	case ActQuit:
		return s, []kit.Intent{kit.ConfirmQuit{}}
	case ActSuspend:
		return s, []kit.Intent{kit.Suspend{}}
	case ActFilter:
		s.typing = true
	case ActSort:
		s.order = (s.order + 1) % orders
		s.sync(f)
		return s, []kit.Intent{kit.Note{Text: "sorted by " + s.order.String()}}
	case ActShow:
		s.detail = true
	case ActBack:
		s.detail = false
	case ActPgUp:
		s.scroll = max(0, s.scroll-f.Size.H/2)
	case ActPgDown:
		s.scroll = s.scrolled(f, s.scroll+f.Size.H/2)
	}
	return s, nil
}

// doVerb asks for a verb; one that removes something asks for its plan first.
func (s Workspaces) doVerb(f *kit.Frame, v verb.Verb) []kit.Intent {
	row, _ := verb.Find(v)
	id, what := s.selected, string(nameOf(s.subject(f)))
	if row.Noun != "workspace" {
		id, what = "", ""
	}
	if row.Removes {
		return []kit.Intent{kit.AskPlan{Verb: v, Subject: string(id), What: what}}
	}
	do := kit.DoVerb{Verb: v, ID: id, What: what}
	if v == verb.Kill {
		return []kit.Intent{kit.Open{Screen: dialogs.NewKill(do)}}
	}
	return []kit.Intent{do}
}

// move is the screen after an action that selects another workspace; false: it is none of these.
func (s Workspaces) move(f *kit.Frame, a kit.Action, key string) (Workspaces, bool) {
	var to vm.ID
	switch a {
	case ActUp:
		to = s.at(s.row() - 1)
	case ActDown:
		to = s.at(s.row() + 1)
	case ActTop:
		to = s.at(0)
	case ActBottom:
		to = s.at(len(s.shown) - 1)
	case ActNext:
		to = s.around(1)
	case ActPrev:
		to = s.around(-1)
	case ActLast:
		if _, ok := f.Find(s.before); ok {
			to = s.before
		}
	case ActNumber:
		if n := int(key[0] - '1'); n < len(s.shown) {
			to = s.shown[n]
		}
	default:
		return s, false
	}
	return s.With(to), true
}
