// Package atomicfile replaces a file so that a reader, a crash or a power cut
// finds the old content or the new one, never a part of it.
package atomicfile

import (
	"fmt"
	"os"
	"path/filepath"
)

// Write puts data into the file at path: a temporary file beside it, created
// with mode and no more, is written, synced and renamed, and then the directory is synced.
// On an error the old file is as it was and no temporary file stays.
func Write(path string, data []byte, mode os.FileMode) (err error) {
	dir, base := filepath.Split(path)
	f, err := createTemp(dir, base, mode)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	tmp := f.Name()
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(tmp)
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	if _, err = f.Write(data); err != nil {
		return err
	}
	if err = f.Sync(); err != nil {
		return err
	}
	if err = f.Close(); err != nil {
		return err
	}
	if err = os.Rename(tmp, path); err != nil {
		return err
	}
	return SyncDir(dir)
}

// IsTemp says whether name is one of this package's temporary files, left over by a crash.
func IsTemp(name string) bool {
	ok, _ := filepath.Match(".*.tmp-*", name)
	return ok
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

// createTemp makes a new file whose mode is at most mode from its first instant;
// os.CreateTemp has a fixed one.
func createTemp(dir, base string, mode os.FileMode) (*os.File, error) {
	for i := 0; ; i++ {
		name := filepath.Join(dir, fmt.Sprintf(".%s.tmp-%d-%d", base, os.Getpid(), i))
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if os.IsExist(err) && i < 10_000 {
			continue
		}
		return f, err
	}
}
