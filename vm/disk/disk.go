// Package disk makes the image files of a workspace and says how much room they take.
//
// Laws of this package: a file gets its name when it is complete and on the disk; the file that is cloned
// is opened for reading only; the format of a disk is told, never probed, since a guest controls the
// first bytes of a raw one. Read clone.go first.
package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
)

// Kind is how a clone was made. It is recorded in workspace.json.
type Kind string

const (
	Clonefile Kind = "clonefile" // APFS: shared blocks, copied on write
	Reflink   Kind = "reflink"   // FICLONE on btrfs, XFS, bcachefs: the same
	Overlay   Kind = "overlay"   // an empty qcow2 file on top of the base
	Copy      Kind = "copy"      // a copy of the data, holes left out
)

// Result says what a clone is.
type Result struct {
	Kind   Kind
	Format vm.DiskFormat
}

// Usage is the room that a file takes, in bytes.
type Usage struct {
	Apparent  int64 // as its reader sees it
	Allocated int64 // of the volume, shared blocks included
	Shared    int64 // of Allocated, what other files use as well; see [Measure]
}

// Own is what the volume gets back when the file is deleted.
func (u Usage) Own() int64 { return max(0, u.Allocated-u.Shared) }

// Stat says how much room a file takes, without telling shared blocks from others. It is one system call.
func Stat(path string) (Usage, error) {
	fi, err := os.Lstat(path)
	if err != nil {
		return Usage{}, err
	}
	if !fi.Mode().IsRegular() {
		return Usage{}, fmt.Errorf("%s is not a regular file", path)
	}
	return Usage{Apparent: fi.Size(), Allocated: allocated(fi)}, nil
}

// Measure is [Stat] that also finds out how much is shared, where the file system can say so. It reads the
// map of the file's extents: milliseconds for a file that a guest has written to for a long time.
func Measure(path string) (Usage, error) {
	u, err := Stat(path)
	if err != nil {
		return u, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return u, err
	}
	defer f.Close()
	if u.Shared, err = shared(f); err != nil {
		return u, fmt.Errorf("map the extents of %s: %w", path, err)
	}
	u.Shared = min(u.Shared, u.Allocated) // a compressed extent counts with its length before compression
	return u, nil
}

// Free is how many bytes an ordinary user may still write to the volume that holds path, or would hold it.
func Free(path string) (int64, error) {
	for {
		n, err := free(path)
		parent := filepath.Dir(path)
		if !errors.Is(err, os.ErrNotExist) || parent == path {
			return n, err
		}
		path = parent
	}
}

// reserve is left free for everything else: file system metadata, logs, state files.
const reserve = 64 << 20

// CheckSpace refuses an operation that needs so many bytes on the volume of path when they, and a little more, are
// not free. When the volume does not say what is free, it lets the operation try.
func CheckSpace(path string, need int64) error {
	n, err := Free(path)
	if err != nil || n >= need+reserve {
		return nil
	}
	return problem.New(problem.Failed,
		fmt.Sprintf("%s are needed on the volume that holds %s and %s are free", mib(need+reserve), path, mib(n)),
		"Make room there and try again.")
}

func mib(n int64) string { return fmt.Sprintf("%d MiB", (n+1<<20-1)>>20) }
