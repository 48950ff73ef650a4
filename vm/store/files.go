//go:build unix

package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
)

// maxFile bounds every JSON file that is read here, in bytes.
const maxFile = 1 << 20

// openDir opens the directory of a workspace; a symbolic link in its place is refused.
func (s *Store) openDir(id vm.ID) (*os.File, error) {
	dir, err := s.Dir(id)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(string(dir), os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, problem.Wrap(problem.NotFound, err, fmt.Sprintf("there is no workspace %s", id.Short()), hintList)
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR):
		return nil, fmt.Errorf("%s is not a directory (links are not followed)", dir)
	}
	return f, err
}

// openAt opens the file called name in dir, which is no symbolic link and, unless flags say so, not made.
func openAt(dir *os.File, name string, flags int) (*os.File, error) {
	for {
		// O_NONBLOCK: a FIFO under that name must not make us wait. It does nothing to regular files.
		fd, err := unix.Openat(int(dir.Fd()), name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
		if err == unix.EINTR {
			continue
		}
		path := dir.Name() + "/" + name
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
		f := os.NewFile(uintptr(fd), path)
		fi, err := f.Stat()
		if err == nil && !fi.Mode().IsRegular() {
			err = fmt.Errorf("%s is not a regular file", path)
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		return f, nil
	}
}

// readAt reads a whole file in dir.
func readAt(dir *os.File, name string) ([]byte, error) {
	f, err := openAt(dir, name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", f.Name(), maxFile)
	}
	return b, err
}

// tryLock takes the flock of f. The kernel gives it to one open file description at a time; it is
// free again when the last descriptor of that description is closed, however its process ends.
func tryLock(f *os.File) (bool, error) {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case err == unix.EWOULDBLOCK:
			return false, nil
		case err != unix.EINTR:
			return false, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
	}
}
