// Package store keeps workspaces on disk: a directory each, named by the ID and by nothing else.
// docs/data-on-disk.md describes the files.
//
// Laws of this package: an ID is parsed at every use, also one that a file contains, so that no name
// ever becomes a path; symbolic links are never followed below the workspaces' directory; a file
// that a newer version wrote is refused and never rewritten; one damaged workspace hides no other.
//
// Read store.go first, then create.go and read.go. The lock in lock.go is the one that makes a
// workspace have at most one machine.
package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"bromure.io/tui/internal/atomicfile"
	"bromure.io/tui/internal/failpoint"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
)

// Store is the workspaces below one data root. All state is on disk: any number of stores, in any
// number of processes, may work on one root at the same time. Reading needs no [Open].
type Store struct {
	Root  layout.Root
	Clock func() time.Time // nil: time.Now
}

// Open makes the directories that are missing, sweeps what crashes have left, and rebuilds the index of
// MAC addresses where it lacks something.
func Open(root layout.Root) (*Store, error) {
	s := &Store{Root: root}
	if err := s.ensure(); err != nil {
		return nil, err
	}
	r, err := s.register(context.Background())
	if err != nil {
		return nil, err
	}
	defer r.unlock()
	if err := r.sweep(); err != nil {
		return nil, fmt.Errorf("sweep %s: %w", root.Workspaces(), err)
	}
	entries, err := s.scan()
	if err != nil {
		return nil, err
	}
	// A full disk must not keep the daemon from starting: the index only repeats what the workspaces say.
	if err := r.repairIndex(entries); err != nil && !problem.IsFull(err) {
		return nil, err
	}
	return s, nil
}

// ensure makes the directories. The root itself may be one that the user has chosen and that others may enter;
// what is below it is private.
func (s *Store) ensure() error {
	dir := s.Root.Workspaces()
	err := os.MkdirAll(string(s.Root), layout.DirMode)
	if err == nil {
		err = layout.Ensure(dir)
	}
	if err == nil || problem.IsFull(err) {
		return problem.OfDisk(err, string(s.Root))
	}
	return problem.Wrap(problem.Failed, err, "open the data root", "The directory "+dir+" must be yours and closed to others: chmod 700.")
}

func (s *Store) now() time.Time {
	if s.Clock == nil {
		return time.Now()
	}
	return s.Clock()
}

// Dir is the directory of a workspace.
func (s *Store) Dir(id vm.ID) (layout.WorkspaceDir, error) {
	if _, err := vm.ParseID(string(id)); err != nil {
		return "", problem.Wrap(problem.Usage, err, "", "")
	}
	return s.Root.Workspace(string(id)), nil
}

// sweep removes what crashes have left in the workspaces' directory: workspaces that were never
// finished, and temporary files. Unfinished workspaces are made under the lock that r is, so their makers are dead.
func (r *registry) sweep() error {
	dir := r.s.Root.Workspaces()
	names, err := readNames(dir)
	if err != nil {
		return err
	}
	tree, err := os.OpenRoot(dir) // removal through it cannot leave dir, whatever links are planted there
	if err != nil {
		return err
	}
	defer tree.Close()
	for _, name := range names {
		if id, found := strings.CutPrefix(name, layout.NewWorkspacePrefix); found {
			parsed, err := vm.ParseID(id)
			if err != nil {
				continue
			}
			// The address first: of the directory alone the next sweep knows that there is one to release.
			err = r.release(parsed)
			if problem.IsFull(err) {
				continue // with room again
			}
			if err == nil {
				err = tree.RemoveAll(name)
			}
			if err != nil {
				return err
			}
			failpoint.Here("sweep: unfinished workspace removed")
		} else if _, err := vm.ParseID(name); err == nil {
			if fi, err := tree.Lstat(name); err == nil && fi.IsDir() {
				_ = atomicfile.Sweep(dir + "/" + name) // a directory that cannot be read is reported by List
			}
		}
	}
	return atomicfile.Sweep(string(r.s.Root))
}

func readNames(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}
