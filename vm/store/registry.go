package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"bromure.io/tui/internal/atomicfile"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
)

// registry is the right to change what is unique in a root: names and MAC addresses. It is a lock
// file that is never removed, held for milliseconds.
type registry struct {
	s    *Store
	lock *os.File
}

// registryPatience is how long the lock may be held by others. Holders do a few small synced writes each.
const registryPatience = 30 * time.Second

func (s *Store) register(ctx context.Context) (*registry, error) {
	path := s.Root.WorkspacesLock()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, layout.FileMode)
	if err != nil {
		return nil, problem.OfDisk(fmt.Errorf("lock the list of workspaces: %w", err), path)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, registryPatience, problem.New(problem.DeadlineMiss,
		"another process has been changing the list of workspaces for too long", "Find it with: fuser "+path))
	defer cancel()
	for wait := time.Millisecond; ; wait = min(2*wait, 20*time.Millisecond) {
		ok, err := tryLock(f)
		if err == nil && ok {
			return &registry{s, f}, nil
		}
		if err == nil {
			select {
			case <-time.After(wait):
				continue
			case <-ctx.Done():
				err = fmt.Errorf("lock the list of workspaces: %w", context.Cause(ctx))
			}
		}
		f.Close()
		return nil, err
	}
}

func (r *registry) unlock() { r.lock.Close() }

// The index of MAC addresses, macs.json. What it says of a workspace that exists is only a copy of
// workspace.json; it alone remembers the address of a workspace whose directory is in the trash but not
// yet deleted, so that no address is given out twice.

type macIndex map[vm.ID]vm.MAC

// readIndex is lenient: what is damaged in it is left out, and rebuilt by repairIndex.
func (s *Store) readIndex() (macIndex, error) {
	root, err := os.Open(string(s.Root))
	if errors.Is(err, fs.ErrNotExist) {
		return macIndex{}, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	data, err := readAt(root, filepath.Base(s.Root.MACs()))
	if errors.Is(err, fs.ErrNotExist) {
		return macIndex{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the MAC addresses: %w", err)
	}
	var idx macIndex
	if json.Unmarshal(data, &idx) != nil || idx == nil {
		return macIndex{}, nil
	}
	maps.DeleteFunc(idx, func(id vm.ID, m vm.MAC) bool {
		_, err := vm.ParseID(string(id))
		return err != nil || m.Check() != nil
	})
	return idx, nil
}

func (r *registry) writeIndex(idx macIndex) error {
	data, err := json.MarshalIndent(idx, "", "  ") // sorted by key
	if err != nil {
		return err
	}
	path := r.s.Root.MACs()
	return problem.OfDisk(atomicfile.Write(path, append(data, '\n'), layout.FileMode), path)
}

// repairIndex adds what workspaces say and the index does not.
func (r *registry) repairIndex(entries []Entry) error {
	idx, err := r.s.readIndex()
	if err != nil {
		return err
	}
	before := maps.Clone(idx)
	for _, e := range entries {
		if e.Err == nil {
			idx[e.ID] = e.Workspace.MAC
		}
	}
	if maps.Equal(before, idx) {
		return nil
	}
	return r.writeIndex(idx)
}

// reserve draws an address that no workspace has and none that is being deleted had, and records it.
func (r *registry) reserve(id vm.ID, entries []Entry, draw func() vm.MAC) (vm.MAC, error) {
	idx, err := r.s.readIndex()
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if e.Workspace.MAC != "" {
			idx[e.ID] = e.Workspace.MAC
		}
	}
	taken := slices.Collect(maps.Values(idx))
	for range 1000 { // of 2^40 addresses
		if mac := draw(); !slices.Contains(taken, mac) {
			idx[id] = mac
			return mac, r.writeIndex(idx)
		}
	}
	return "", errors.New("no free MAC address was drawn")
}

func (r *registry) release(id vm.ID) error {
	idx, err := r.s.readIndex()
	if err != nil {
		return err
	}
	if _, ok := idx[id]; !ok {
		return nil
	}
	delete(idx, id)
	return r.writeIndex(idx)
}

// Release gives the MAC address of a deleted workspace back. It is the last step of a deletion; to
// release what is not reserved does nothing. A workspace that still exists keeps its address.
func (s *Store) Release(ctx context.Context, id vm.ID) error {
	dir, err := s.Dir(id)
	if err != nil {
		return err
	}
	r, err := s.register(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // there is not even a place for workspaces
	}
	if err != nil {
		return err
	}
	defer r.unlock()
	if _, err := os.Lstat(string(dir)); !errors.Is(err, fs.ErrNotExist) {
		return problem.New(problem.Refused, fmt.Sprintf("release the MAC address of workspace %s: it still exists", id.Short()), "")
	}
	return r.release(id)
}
