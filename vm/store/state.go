package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

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
	Version int               `json:"version"`
	Machine *vm.Record        `json:"machine,omitempty"` // the machine that was running last, if it was not seen to end
	Dir     layout.MachineDir `json:"dir,omitempty"`     // its runtime directory
	Failure *vm.Failure       `json:"failure,omitempty"` // of the last start
}

// MachineState reads state.json; a workspace that was never started has an empty one. An error means
// that it is unknown what the last daemon left.
func (s *Store) MachineState(id vm.ID) (MachineState, error) {
	dir, err := s.openDir(id)
	if err != nil {
		return MachineState{}, err
	}
	defer dir.Close()
	data, err := readAt(dir, filepath.Base(s.Root.Workspace(string(id)).State()))
	if errors.Is(err, fs.ErrNotExist) {
		return MachineState{Version: StateVersion}, nil
	}
	var st MachineState
	if err == nil {
		st, err = decodeState(data, id)
	}
	if err != nil {
		return MachineState{}, fmt.Errorf("state of workspace %s: %w", id.Short(), err)
	}
	return st, nil
}

func decodeState(data []byte, id vm.ID) (st MachineState, err error) {
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return st, fmt.Errorf("state.json is damaged: %w", err)
	}
	switch {
	case head.Version < 1:
		return st, errors.New("state.json has no version")
	case head.Version > StateVersion:
		return st, problem.New(problem.Refused,
			fmt.Sprintf("state.json has version %d and this program knows %d", head.Version, StateVersion),
			"A newer Bromure TUI made it: use that one.")
	}
	if err := json.Unmarshal(data, &st); err != nil {
		return st, fmt.Errorf("state.json is damaged: %w", err)
	}
	// A path out of a file: only the directory of this workspace's machine in some runtime directory is one.
	if d := string(st.Dir); d != "" {
		runtime := layout.Runtime(filepath.Dir(filepath.Dir(d)))
		if !filepath.IsAbs(d) || runtime.Machine(string(id)) != st.Dir {
			return st, fmt.Errorf("state.json names %.200q, which is no runtime directory of this workspace", d)
		}
	}
	return st, nil
}

// SetMachine records a machine that was started or adopted. The machine holds the workspace's lock.
func (s *Store) SetMachine(id vm.ID, rec vm.Record, spec vm.Spec) error {
	return s.saveState(id, MachineState{Machine: &rec, Dir: spec.Dir})
}

// ClearMachine records that the machine is gone, and why if that is a failure.
func (s *Store) ClearMachine(id vm.ID, failure *vm.Failure) error {
	return s.saveState(id, MachineState{Failure: failure})
}

// saveState replaces state.json, also a damaged one. The file of a newer version is not replaced.
func (s *Store) saveState(id vm.ID, st MachineState) error {
	old, err := s.MachineState(id)
	if k := problem.KindOf(err); err != nil && (k == problem.Refused || k == problem.NotFound) {
		return err
	}
	if err == nil && old.Machine == nil && old.Failure == nil && st.Machine == nil && st.Failure == nil {
		return nil // it says so already
	}
	dir, err := s.openDir(id) // a link in its place is not written through
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
		return fmt.Errorf("state of workspace %s: %d bytes are more than the %d that a state has", id.Short(), len(data), maxFile)
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
	data, err := readAt(dir, filepath.Base(s.Root.Workspace(string(id)).Compromised()))
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
