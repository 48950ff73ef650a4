package vm

import (
	"fmt"

	"bromure.io/tui/internal/problem"
	"bromure.io/tui/internal/verb"
)

// Status is the part of a workspace's condition that decides which verbs it allows.
type Status struct {
	State       State
	Compromised *Compromise
}

// Allows says why the verb cannot be done to the workspace called name in this status; nil means
// that it can. The reason is a [problem.Refused] with a hint, for a message, a footer or a disabled key.
func (s Status) Allows(v verb.Verb, name Name) error {
	refuse := func(hint, format string, args ...any) error {
		return problem.New(problem.Refused, fmt.Sprintf("%s %q: ", v, name)+fmt.Sprintf(format, args...), hint)
	}
	live := s.State == Running || s.State == Starting || s.State == Stopping
	switch v {
	case verb.Start:
		switch {
		case s.State == Running:
			return refuse("Use `bromure-cli vm exec` to run a command in it, or `bromure-cli vm attach` for its console.", "it is already running")
		case s.State == Starting:
			return refuse("Wait for it: bromure-cli vm ls", "it is already starting")
		case s.State == Stopping:
			return refuse("Wait until it is off: bromure-cli vm ls", "it is stopping")
		case s.Compromised != nil:
			return refuse("Its disk and home must be wiped first.", "it is marked compromised (%s) and does not boot", s.Compromised.Reason)
		}
	case verb.Exec, verb.Attach:
		switch {
		case s.State == Starting:
			return refuse("Wait for it: bromure-cli vm ls", "it is still starting")
		case s.State != Running:
			return refuse("Start it first: bromure-cli vm run", "it is %s", s.State)
		}
	case verb.Stop, verb.Kill:
		switch {
		case v == verb.Stop && s.State == Stopping:
			return refuse("`bromure-cli vm kill` ends it at once.", "it is already stopping")
		case !live:
			return refuse("", "it is not running (%s)", s.State)
		}
	case verb.Reset, verb.EraseHome, verb.Delete:
		if live {
			return refuse("Stop it first: bromure-cli vm stop", "it is %s", s.State)
		}
	case verb.Reboot:
		if s.State != Running {
			return refuse("Start it with: bromure-cli vm run", "it is not running (%s)", s.State)
		}
	}
	return nil
}
