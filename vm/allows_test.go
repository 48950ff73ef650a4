package vm_test

import (
	"strings"
	"testing"

	"bromure.io/tui/internal/problem"
	"bromure.io/tui/internal/verb"
	"bromure.io/tui/vm"
)

func TestAllows(t *testing.T) {
	states := []vm.State{vm.Off, vm.Starting, vm.Running, vm.Stopping, vm.Broken}
	// One letter a state, in that order: y allowed, n refused.
	table := map[verb.Verb]string{
		verb.Start:     "ynnny",
		verb.Exec:      "nnynn",
		verb.Attach:    "nnynn",
		verb.Stop:      "nyynn",
		verb.Kill:      "nyyyn",
		verb.Reboot:    "nnynn",
		verb.Reset:     "ynnny",
		verb.EraseHome: "ynnny",
		verb.Delete:    "ynnny",
		verb.Logs:      "yyyyy",
		verb.Describe:  "yyyyy",
	}
	for v, want := range table {
		for i, s := range states {
			err := vm.Status{State: s}.Allows(v, "w")
			if (err == nil) != (want[i] == 'y') {
				t.Errorf("%s while %s: %v", v, s, err)
			}
			if err != nil && problem.KindOf(err) != problem.Refused {
				t.Errorf("%s while %s: kind %s", v, s, problem.KindOf(err))
			}
		}
	}
}

func TestRunningRefusalNamesTheOtherVerbs(t *testing.T) {
	err := vm.Status{State: vm.Running}.Allows(verb.Start, "w")
	if h := problem.HintOf(err); !strings.Contains(h, "vm exec") || !strings.Contains(h, "vm attach") {
		t.Errorf("hint %q", h)
	}
}

func TestCompromisedDoesNotBoot(t *testing.T) {
	s := vm.Status{State: vm.Off, Compromised: &vm.Compromise{Reason: "a fake left"}}
	if err := s.Allows(verb.Start, "w"); err == nil || !strings.Contains(err.Error(), "a fake left") {
		t.Errorf("start: %v", err)
	}
	s.State = vm.Running
	if err := s.Allows(verb.Stop, "w"); err != nil {
		t.Errorf("stop of a marked one that still runs: %v", err)
	}
}
