// Package atomicfile replaces a file so that a reader, a crash or a power cut
// finds the old content or the new one, never a part of it.
package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"bromure.io/tui/internal/failpoint"
)

// Write puts data into the file at path: a temporary file beside it, created
// with mode and no more, is written, synced and renamed, and then the directory is synced.
// On an error the old file is as it was and no temporary file stays.
func Write(path string, data []byte, mode os.FileMode) error {
	f, err := Create(path, mode)
	if err != nil {
		return err
	}
	defer f.Abort()
	if _, err := f.Write(data); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return f.Commit()
}

// File is the content to be of a file, under a temporary name beside it. Its maker holds a lock on
// it, so that [Sweep] knows those that are being written from those that a crash left over.
type File struct {
	*os.File

	// Before, if set, is called by Commit when the content is on the disk and has no name yet. Its error undoes the file.
	Before func() error

	path string
	done bool
}

// Create makes an empty temporary file beside path. The caller ends with Commit or Abort.
func Create(path string, mode os.FileMode) (*File, error) {
	dir, base := filepath.Split(path)
	for i := 0; i < maxTries; i++ {
		name := filepath.Join(dir, tempName(base, i))
		// os.CreateTemp has a fixed mode; here nobody can open the file in an instant of a wider one.
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, mode)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", path, err)
		}
		if ours, _ := claim(f, name); ours {
			failpoint.Here("atomicfile: " + base + " begun")
			return &File{File: f, path: path}, nil
		}
		f.Close() // Sweep was faster, and has removed it or will
	}
	return nil, fmt.Errorf("write %s: no free temporary name", path)
}

// maxTries bounds the search for a free temporary name.
const maxTries = 10_000

func tempName(base string, i int) string {
	return fmt.Sprintf(".%s.tmp-%d-%d", base, os.Getpid(), i)
}

// Reopen goes on with the file that has the temporary name now: something has put another there (a
// system call that makes its file itself).
func (f *File) Reopen() error {
	g, err := os.OpenFile(f.Name(), os.O_RDWR|noFollow, 0)
	if err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	if ours, _ := claim(g, g.Name()); !ours {
		g.Close()
		return fmt.Errorf("write %s: another process took the temporary file", f.path)
	}
	f.Close()
	f.File = g
	return nil
}

// Commit syncs the file, gives it its name, in place of what has it, and syncs the directory. After an error the
// file at that name is as it was and the temporary one is gone.
func (f *File) Commit() error { return f.commit(os.Rename) }

// CommitNew is [File.Commit] for a name that must not be taken: then the error is [fs.ErrExist].
func (f *File) CommitNew() error { return f.commit(renameNew) }

func (f *File) commit(rename func(from, to string) error) error {
	base := filepath.Base(f.path)
	err := f.Sync()
	if err == nil {
		failpoint.Here("atomicfile: " + base + " written")
		if f.Before != nil {
			err = f.Before()
		}
	}
	if err == nil {
		// The descriptor, and with it the lock, is kept until the file has its name: Sweep must not see it unlocked.
		err = rename(f.Name(), f.path)
	}
	if err != nil {
		f.Abort()
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	f.done = true
	failpoint.Here("atomicfile: " + base + " has its name")
	if err := errors.Join(f.Close(), SyncDir(filepath.Dir(f.path))); err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	return nil
}

// Abort removes the temporary file. After Commit it does nothing.
func (f *File) Abort() {
	if f.done {
		return
	}
	f.done = true
	_ = os.Remove(f.Name())
	_ = f.Close()
}

// IsTemp says whether name is one of this package's temporary files.
func IsTemp(name string) bool {
	ok, _ := filepath.Match(".*.tmp-*", name)
	return ok
}

// Sweep removes the temporary files in dir whose makers are dead. It may run at any time and in
// several processes at once. What cannot be removed is left for the next time.
func Sweep(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !IsTemp(e.Name()) || !e.Type().IsRegular() {
			continue
		}
		name := filepath.Join(dir, e.Name())
		f, err := os.OpenFile(name, os.O_RDONLY|noFollow, 0)
		if err != nil {
			continue
		}
		if ours, sure := claim(f, name); ours && sure {
			_ = os.Remove(name)
		}
		f.Close()
	}
	return nil
}

// SyncDir makes the entries of dir durable: without it a rename may be lost by a power cut.
func SyncDir(dir string) error {
	if dir == "" {
		dir = "."
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
