package atomicfile

import (
	"errors"

	"golang.org/x/sys/unix"
)

// renameNew renames without replacing.
func renameNew(from, to string) error {
	err := unix.RenamexNp(from, to, unix.RENAME_EXCL)
	if errors.Is(err, unix.ENOTSUP) {
		return renameIfFree(from, to)
	}
	return err
}
