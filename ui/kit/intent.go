package kit

import (
	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/verb"
	"bromure.io/tui/vm"
)

// Intent is what a screen wants done. Intents are data: ui/commands.go turns those that reach the daemon into
// effects, ui/route.go carries out those that only change what is shown.
type Intent any

type (
	// DoVerb asks for a verb on a workspace, or on nothing for image-build.
	DoVerb struct {
		Verb verb.Verb
		ID   vm.ID
		What string // for progress and errors
	}
	// AskPlan asks the daemon for a plan, to be shown.
	AskPlan struct {
		Verb    verb.Verb
		Subject string // an ID
		What    string
	}
	// CarryOut has a plan carried out that the user confirmed.
	CarryOut struct{ Plan verb.Plan }
	// CreateWorkspace asks for a workspace.
	CreateWorkspace struct {
		Want  wire.Create
		Start bool
	}
	// Open puts a dialog on top. ByItself: it was not asked for by the last key, so it takes none until input was quiet.
	Open struct {
		Screen   Screen
		ByItself bool
	}
	// Close takes the top dialog away.
	Close struct{}
	// Select makes a workspace the selected one, and goes into its console if that is where the user came from.
	Select struct{ ID vm.ID }
	// EnterConsole goes into a console of a running workspace; More opens another one.
	EnterConsole struct {
		ID   vm.ID
		More bool
	}
	// NextTab shows the next console of the selected workspace, or its overview.
	NextTab struct{ By int }
	// ToggleFull gives the console the whole screen, or takes it back.
	ToggleFull struct{}
	// Press is the key of another screen, as the finder runs it.
	Press struct {
		Action Action
		ID     vm.ID // that was selected when it was chosen
	}
	// ConfirmQuit leaves the front, after a question where machines run. Quit leaves it.
	ConfirmQuit struct{}
	// Quit leaves the front. No machine is stopped by it.
	Quit struct{}
	// Suspend gives the terminal back to the shell, as ctrl-z does.
	Suspend struct{}
	// Note says something in the footer until the next key.
	Note struct{ Text string }
)
