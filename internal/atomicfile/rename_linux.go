package atomicfile

import (
	"errors"

	"golang.org/x/sys/unix"
)

// renameNew renames without replacing.
func renameNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	// EINVAL: the file system does not know the flag (rename(2)).
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return renameIfFree(from, to)
	}
	return err
}
