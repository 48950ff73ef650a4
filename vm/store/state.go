package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"bromure.io/tui/internal/atomicfile"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
)

// StateVersion is the version of state.json that this program writes.
const StateVersion = 1

// MachineState is the content of state.json: what a daemon leaves for the next one. Nothing in it is
// believed without proof; the lock alone says whether a machine runs.
type MachineState struct {
	Version int         `json:"version"`
	Machine *vm.Record  `json:"machine,omitempty"` // the machine that was running last, if it was not seen to end
	Failure *vm.Failure `json:"failure,omitempty"` // of the last start
	Steps   []Step      `json:"steps,omitempty"`   // of the last start
}

// Step is a step of a start.
type Step struct {
	Name string        `json:"name"`
	Took time.Duration `json:"took,omitempty"` // nanoseconds
	Done bool          `json:"done"`
	Note string        `json:"note,omitempty"`
}

// MachineState reads state.json; a workspace that was never started has an empty one. An error means
// that it is unknown what the last daemon left.
func (s *Store) MachineState(id vm.ID) (MachineState, error) {
	var st MachineState
	dir, err := s.openDir(id)
	if err != nil {
		return st, err
	}
	defer dir.Close()
	data, err := readAt(dir, filepath.Base(layout.WorkspaceDir("").State()))
	if errors.Is(err, fs.ErrNotExist) {
		return MachineState{Version: StateVersion}, nil
	}
	if err != nil {
		return st, err
	}
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return st, fmt.Errorf("state.json of workspace %s is damaged: %w", id.Short(), err)
	}
	if head.Version > StateVersion {
		return st, problem.New(problem.Refused,
			fmt.Sprintf("state.json of workspace %s has version %d and this program knows %d", id.Short(), head.Version, StateVersion),
			"A newer Bromure TUI made it: use that one.")
	}
	if err := json.Unmarshal(data, &st); err != nil || st.Version < 1 {
		return MachineState{}, fmt.Errorf("state.json of workspace %s is damaged: %w", id.Short(), errors.Join(err, errVersion(st.Version)))
	}
	return st, nil
}

func errVersion(v int) error {
	if v < 1 {
		return fmt.Errorf("version %d", v)
	}
	return nil
}

// SaveMachineState replaces state.json. The caller holds the workspace's lock, or knows that the machine that it started
// holds it. A file of a newer version is not replaced.
func (s *Store) SaveMachineState(id vm.ID, st MachineState) error {
	if _, err := s.MachineState(id); problem.KindOf(err) == problem.Refused || problem.KindOf(err) == problem.NotFound {
		return err // what is only damaged is replaced
	}
	dir, err := s.openDir(id)
	if err != nil {
		return err
	}
	dir.Close()
	st.Version = StateVersion
	data, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return err
	}
	if len(data) >= maxFile {
		return fmt.Errorf("state.json of workspace %s would have %d bytes, the limit is %d", id.Short(), len(data), maxFile)
	}
	path := s.Root.Workspace(string(id)).State()
	return problem.OfDisk(atomicfile.Write(path, append(data, '\n'), layout.FileMode), path)
}

// Compromise reads the mark of a compromised workspace; nil means that there is none. A mark that
// cannot be read is a mark: only its absence lets the workspace boot.
func (s *Store) Compromise(id vm.ID) (*vm.Compromise, error) {
	dir, err := s.openDir(id)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	data, err := readAt(dir, filepath.Base(layout.WorkspaceDir("").Compromised()))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	mark := &vm.Compromise{}
	if err == nil {
		err = json.Unmarshal(data, mark)
	}
	if err != nil {
		return &vm.Compromise{Reason: fmt.Sprintf("the mark cannot be read: %v", err)}, nil
	}
	if mark.Reason == "" {
		mark.Reason = "no reason was recorded"
	}
	return mark, nil
}
