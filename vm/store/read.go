package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"bromure.io/tui/internal/layout"
	"bromure.io/tui/vm"
)

// Entry is what was found under the name of an ID: a workspace, or (Err) why there is none that can be used. Then
// Workspace has the ID, and the name if that could be read.
type Entry struct {
	ID        vm.ID
	Dir       layout.WorkspaceDir
	Workspace vm.Workspace
	Err       error
}

// List reads all workspaces, sorted by name. A damaged one is an entry with its error, and hides no other. What
// has no ID as its name is none of ours and is left out. The error is for the directory as a whole; when it
// does not exist, there are no workspaces.
func (s *Store) List() ([]Entry, error) {
	entries, err := s.scan()
	if err != nil {
		return nil, err
	}
	idx, _ := s.readIndex() // unreadable: duplicates are told apart by age
	flagDuplicates(entries, idx)
	slices.SortFunc(entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Workspace.Name.Key(), b.Workspace.Name.Key()), cmp.Compare(a.ID, b.ID))
	})
	return entries, nil
}

// scan is List without the comparison of workspaces with each other.
func (s *Store) scan() ([]Entry, error) {
	names, err := readNames(s.Root.Workspaces())
	if err != nil {
		return nil, fmt.Errorf("list workspaces: %w", err)
	}
	var entries []Entry
	for _, name := range names {
		if id, err := vm.ParseID(name); err == nil {
			entries = append(entries, s.read(id))
		}
	}
	return entries, nil
}

// Load reads one workspace.
func (s *Store) Load(id vm.ID) (vm.Workspace, error) {
	e := s.read(id)
	if e.Err != nil {
		return vm.Workspace{}, e.Err
	}
	idx, _ := s.readIndex()
	if holders(idx, e.Workspace.MAC) == 1 && idx[id] == e.Workspace.MAC {
		return e.Workspace, nil // the usual case: nobody else has the address
	}
	entries, err := s.scan()
	if err != nil {
		return vm.Workspace{}, err
	}
	flagDuplicates(entries, idx)
	for _, other := range entries {
		if other.ID == id && other.Err != nil {
			return vm.Workspace{}, other.Err
		}
	}
	return e.Workspace, nil
}

func (s *Store) read(id vm.ID) Entry {
	e := Entry{ID: id, Workspace: vm.Workspace{ID: id}}
	fail := func(err error) Entry {
		e.Err = fmt.Errorf("workspace %s: %w", id.Short(), err)
		return e
	}
	var err error
	if e.Dir, err = s.Dir(id); err != nil {
		return fail(err)
	}
	dir, err := s.openDir(id)
	if err != nil {
		e.Err = err
		return e
	}
	defer dir.Close()
	data, err := readAt(dir, filepath.Base(e.Dir.Config()))
	if errors.Is(err, fs.ErrNotExist) {
		return fail(errors.New("it has no workspace.json"))
	}
	if err != nil {
		return fail(err)
	}
	ws, err := decode(data)
	if err == nil && ws.ID != id {
		err = fmt.Errorf("its workspace.json belongs to %.40q: was the directory copied by hand?", ws.ID)
	}
	if err == nil {
		err = ws.Check()
	}
	if err != nil {
		if name, bad := vm.ParseName(string(ws.Name)); bad == nil && ws.ID == id {
			e.Workspace.Name = name
		}
		return fail(err)
	}
	ws.Name, _ = vm.ParseName(string(ws.Name)) // may have been put there by hand in another normalisation form
	e.Workspace = ws
	return e
}

// flagDuplicates marks workspaces that have the MAC address of another: only a directory that was copied by
// hand has it. The address belongs to the one that the index names, else to the older one.
func flagDuplicates(entries []Entry, idx macIndex) {
	owner := map[vm.MAC]*Entry{}
	better := func(a, b *Entry) bool {
		if x, y := idx[a.ID] == a.Workspace.MAC, idx[b.ID] == b.Workspace.MAC; x != y {
			return x
		}
		return cmp.Or(a.Workspace.Created.Compare(b.Workspace.Created), cmp.Compare(a.ID, b.ID)) < 0
	}
	for i := range entries {
		e := &entries[i]
		if o := owner[e.Workspace.MAC]; e.Err == nil && (o == nil || better(e, o)) {
			owner[e.Workspace.MAC] = e
		}
	}
	for i := range entries {
		e := &entries[i]
		if o := owner[e.Workspace.MAC]; e.Err == nil && o != e {
			e.Err = fmt.Errorf("workspace %s: its MAC address %s belongs to workspace %s: was the directory copied by hand?",
				e.ID.Short(), e.Workspace.MAC, o.ID.Short())
			e.Workspace = vm.Workspace{ID: e.ID, Name: e.Workspace.Name}
		}
	}
}

func holders(idx macIndex, mac vm.MAC) (n int) {
	for _, m := range idx {
		if m == mac {
			n++
		}
	}
	return n
}
