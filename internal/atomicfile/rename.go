package atomicfile

import (
	"io/fs"
	"os"
)

// renameIfFree is renameNew where the file system has no such operation: what takes the name between the two
// calls is lost, so callers hold a lock of their own for names that others may take.
func renameIfFree(from, to string) error {
	if _, err := os.Lstat(to); err == nil {
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: fs.ErrExist}
	}
	return os.Rename(from, to)
}
