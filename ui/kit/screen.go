package kit

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/verb"
	"bromure.io/tui/vm"
)

// Screen is a value that draws itself from a frame and answers keys with intents. It does no I/O, asks no clock and starts no
// goroutine. A dialog is a screen too; its View is only its box.
type Screen interface {
	// Update answers a message: a key, a paste, a mouse event or [Changed].
	Update(f *Frame, msg tea.Msg) (Screen, []Intent)
	// View draws it; for a screen exactly f.Size, for a dialog at most that.
	View(f *Frame) string
	// Keys are the keys that work here, with the reason for those that are off. Help and footer show them.
	Keys(f *Frame) Keys
}

// Changed tells a screen that the frame has a new snapshot or another size.
type Changed struct{}

// Frame is everything that a screen is drawn from.
type Frame struct {
	Size  Size
	Theme *Theme
	Snap  wire.Snapshot
	Now   time.Time // Snap.Now, and onwards from there
	Lost  string    // why the daemon does not answer; empty: it does
	Ready bool      // the first snapshot is there

	Loads   map[vm.ID]*Load
	Ops     []Op
	Serial  map[vm.ID][]string // the last lines of boots that are in progress
	Console *ConsoleView       // of the selected workspace; nil: none is open
	Full    bool               // the console has the whole screen
	Notice  string             // for the footer: why a key did nothing
}

// Size is an area in cells.
type Size struct{ W, H int }

// Op is an operation that this front has asked for and that is not over.
type Op struct {
	Serial int // counts them
	Verb   verb.Verb
	ID     vm.ID // empty: it is about no workspace
	What   string
	Step   string
	Begun  time.Time
}

// ConsoleView is a console as screens see it.
type ConsoleView struct {
	Tabs    []string // names of the consoles that are open here
	Active  int
	Lines   []string // as many as the area has rows, each styled and of its width
	Focused bool
	Back    int    // how many lines it is scrolled back
	Ended   string // why nothing comes any more; empty: it lives
}

// Find is the workspace with an ID in the current snapshot.
func (f *Frame) Find(id vm.ID) (wire.Workspace, bool) {
	for _, w := range f.Snap.Workspaces {
		if w.ID == id {
			return w, true
		}
	}
	return wire.Workspace{}, false
}

// OpOf is the operation in progress on a workspace.
func (f *Frame) OpOf(id vm.ID) (Op, bool) {
	for _, op := range f.Ops {
		if op.ID == id && id != "" {
			return op, true
		}
	}
	return Op{}, false
}

// Allows says why a verb cannot be done to a workspace now; nil: it can.
func (f *Frame) Allows(w wire.Workspace, v verb.Verb) error {
	return vm.Status{State: w.State, Compromised: w.Compromise}.Allows(v, w.Name)
}
