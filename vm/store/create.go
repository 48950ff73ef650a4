package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"bromure.io/tui/internal/atomicfile"
	"bromure.io/tui/internal/failpoint"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
)

// NewWorkspace asks for a workspace. Zero values are the defaults of vm; the memory's depends on the
// host, see vm.DefaultMemory.
type NewWorkspace struct {
	Name      string // empty: one is made up
	CPUs      int
	MemoryMiB int
	HomeMiB   int64
	Image     string // reference; empty: whichever is the newest at the first start
	Color     string
	Notes     string
	Throwaway vm.Throwaway
}

// Create makes a workspace. It is put together under another name and renamed when everything is
// on the disk, so that a crash leaves a whole workspace or none.
func (s *Store) Create(ctx context.Context, n NewWorkspace) (ws vm.Workspace, err error) {
	ws = vm.Workspace{
		Version:   vm.ConfigVersion,
		ID:        vm.NewID(),
		MAC:       vm.NewMAC(), // for Check; the reservation draws the real one
		CPUs:      cmp.Or(n.CPUs, vm.DefaultCPUs),
		MemoryMiB: cmp.Or(n.MemoryMiB, vm.DefaultMemoryMiB),
		HomeMiB:   cmp.Or(n.HomeMiB, vm.DefaultHomeMiB),
		Created:   s.now().UTC(),
		Image:     n.Image,
		Color:     n.Color,
		Notes:     n.Notes,
		Throwaway: n.Throwaway,
	}
	if n.Name == "" {
		ws.Name = "unnamed" // for Check: friendlyName makes it up below
	} else if ws.Name, err = vm.ParseName(n.Name); err != nil {
		return vm.Workspace{}, problem.Wrap(problem.Usage, err, "", "Any letters, digits, spaces and emoji will do; not control characters, slashes or a dash in front.")
	}
	if err := ws.Check(); err != nil {
		return vm.Workspace{}, problem.Wrap(problem.Usage, err, "", "")
	}

	if err := s.ensure(); err != nil {
		return vm.Workspace{}, err
	}
	r, err := s.register(ctx)
	if err != nil {
		return vm.Workspace{}, err
	}
	defer r.unlock()
	entries, err := s.scan()
	if err != nil {
		return vm.Workspace{}, err
	}
	if n.Name == "" {
		ws.Name = friendlyName(entries)
	} else if err := nameTaken(entries, ws.ID, ws.Name); err != nil {
		return vm.Workspace{}, err
	}
	if err := r.build(&ws, entries); err != nil {
		return vm.Workspace{}, problem.OfDisk(fmt.Errorf("create %q: %w", ws.Name, err), s.Root.Workspaces())
	}
	return ws, nil
}

// build makes the directory of a workspace and takes everything back on an error.
func (r *registry) build(ws *vm.Workspace, entries []Entry) (err error) {
	tmp, dir := r.s.Root.NewWorkspace(string(ws.ID)), r.s.Root.Workspace(string(ws.ID))
	if err := os.Mkdir(string(tmp), layout.DirMode); err != nil {
		return err
	}
	failpoint.Here("create: directory")
	defer func() {
		if err != nil {
			// On a full disk the index cannot be written: then Open releases the address together with the
			// directory, which for that must stay until it is released.
			if r.release(ws.ID) == nil {
				_ = os.RemoveAll(string(tmp))
			}
		}
	}()
	if ws.MAC, err = r.reserve(ws.ID, entries, vm.NewMAC); err != nil {
		return err
	}
	failpoint.Here("create: address")
	if err := os.Mkdir(tmp.Logs(), layout.DirMode); err != nil {
		return err
	}
	failpoint.Here("create: logs")
	lock, err := os.OpenFile(tmp.Lock(), os.O_RDWR|os.O_CREATE|os.O_EXCL, layout.FileMode)
	if err != nil {
		return err
	}
	failpoint.Here("create: lock")
	lock.Close() // empty, and [Store.Lock] makes one that a power cut has lost
	data, err := encode(*ws)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(tmp.Config(), data, layout.FileMode); err != nil { // syncs tmp, too
		return err
	}
	failpoint.Here("create: content")
	if err := os.Rename(string(tmp), string(dir)); err != nil {
		return err
	}
	failpoint.Here("create: name")
	if err := atomicfile.SyncDir(r.s.Root.Workspaces()); err != nil {
		return errors.Join(err, os.Rename(string(dir), string(tmp)))
	}
	return nil
}

// Update changes the settings of a workspace, whether its machine runs or not, and returns what they are
// then. change gets the current ones; when it returns an error, nothing is changed. It runs under the lock that
// all processes share, so it does nothing slow and calls no method of a Store that changes something.
func (s *Store) Update(id vm.ID, change func(*vm.Workspace) error) (vm.Workspace, error) {
	none := vm.Workspace{}
	dir, err := s.Dir(id)
	if err != nil {
		return none, err
	}
	if _, err := os.Lstat(s.Root.Workspaces()); errors.Is(err, fs.ErrNotExist) {
		_, err := s.Load(id)
		return none, err // not found, in the usual words
	}
	r, err := s.register(context.Background())
	if err != nil {
		return none, err
	}
	defer r.unlock()
	old, err := s.Load(id)
	if err != nil {
		return none, err
	}
	ws := old
	ws.Extra = cloneExtra(old.Extra)
	if err := change(&ws); err != nil {
		return none, err
	}
	if ws.ID != old.ID || ws.MAC != old.MAC || ws.Version != old.Version || !ws.Created.Equal(old.Created) {
		return none, fmt.Errorf("update %q: its ID, MAC address, version and time of creation do not change", old.Name)
	}
	if ws.Name, err = vm.ParseName(string(ws.Name)); err == nil {
		err = ws.Check()
	}
	if err != nil {
		return none, problem.Wrap(problem.Usage, err, fmt.Sprintf("update %q", old.Name), "")
	}
	if ws.Name.Key() != old.Name.Key() {
		entries, err := s.scan()
		if err != nil {
			return none, err
		}
		if err := nameTaken(entries, id, ws.Name); err != nil {
			return none, err
		}
	}
	data, err := encode(ws)
	if err != nil {
		return none, err
	}
	if err := atomicfile.Write(dir.Config(), data, layout.FileMode); err != nil {
		return none, problem.OfDisk(fmt.Errorf("update %q: %w", old.Name, err), dir.Config())
	}
	return ws, nil
}

func nameTaken(entries []Entry, id vm.ID, name vm.Name) error {
	i := slices.IndexFunc(entries, func(e Entry) bool {
		return e.ID != id && e.Workspace.Name != "" && e.Workspace.Name.Key() == name.Key()
	})
	if i < 0 {
		return nil
	}
	return problem.New(problem.Refused,
		fmt.Sprintf("the name %q is taken by workspace %s", name, entries[i].ID.Short()), "Take another name.")
}

func cloneExtra(m map[string]json.RawMessage) map[string]json.RawMessage {
	if m == nil {
		return nil
	}
	c := make(map[string]json.RawMessage, len(m))
	for k, v := range m {
		c[k] = slices.Clone(v)
	}
	return c
}
