package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
)

// Lock is the lock of a workspace, held: nobody else starts, stops or changes its machine. The file
// says nothing; what counts is the flock on it.
type Lock struct{ f *os.File }

// File is the locked descriptor. A process that inherits it holds the lock for as long as it lives
// (exec.Cmd.ExtraFiles); other children do not get it.
func (l *Lock) File() *os.File { return l.f }

// Unlock lets go of our descriptor. A process that has inherited it keeps the lock: nothing here
// calls LOCK_UN, which would take it from that process as well.
func (l *Lock) Unlock() { l.f.Close() }

// Lock takes the lock of a workspace, or fails at once with [vm.ErrLocked].
func (s *Store) Lock(id vm.ID) (*Lock, error) {
	path, err := s.Dir(id)
	if err != nil {
		return nil, err
	}
	for range lockTries {
		dir, err := s.openDir(id)
		if err != nil {
			return nil, err
		}
		f, err := openAt(dir, filepath.Base(path.Lock()), os.O_RDWR|os.O_CREATE)
		dir.Close()
		if errors.Is(err, fs.ErrNotExist) {
			continue // the directory was deleted under us
		}
		if err != nil {
			return nil, problem.OfDisk(fmt.Errorf("lock workspace %s: %w", id.Short(), err), string(path))
		}
		locked, err := tryLock(f)
		if err == nil && !locked {
			err = problem.Wrap(problem.Refused, vm.ErrLocked, "workspace "+id.Short(),
				"Its machine runs, or another verb works on it: bromure-cli vm ls")
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		// A deletion renames the directory away while it holds the lock. Whoever waited for the old file
		// must not take its lock for the workspace's.
		mine, err := f.Stat()
		if err != nil {
			f.Close()
			return nil, err
		}
		if named, err := os.Lstat(path.Lock()); err == nil && os.SameFile(mine, named) {
			return &Lock{f}, nil
		}
		f.Close()
	}
	return nil, fmt.Errorf("lock workspace %s: its lock file is replaced again and again", id.Short())
}

// lockTries bounds the repetitions of Lock: each means that the directory was replaced meanwhile.
const lockTries = 16
