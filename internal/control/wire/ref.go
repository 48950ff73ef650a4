package wire

import (
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
)

// CheckRef refuses what can be neither a workspace's name nor its ID nor a prefix of one, by the one
// rule for names. Fronts and the server both ask it, so that nothing else reaches a daemon's service.
func CheckRef(ref string) error {
	if _, err := vm.ParseID(ref); err == nil {
		return nil
	}
	if _, err := vm.ParseName(ref); err != nil {
		return problem.Wrap(problem.Usage, err, "", "Workspaces are addressed by name, by ID or by the beginning of an ID.")
	}
	return nil
}
