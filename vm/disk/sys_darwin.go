package disk

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"bromure.io/tui/internal/atomicfile"
	"bromure.io/tui/internal/layout"
)

// share makes dst a file that shares all blocks with src, if the file system can: clonefile(2), on APFS. That call
// makes its file itself, so the clone takes the place of the empty one.
func share(src *os.File, dst *atomicfile.File) (Kind, error) {
	clone := dst.Name() + "c" // a temporary name as well, for atomicfile.Sweep
	if err := unix.Fclonefileat(int(src.Fd()), unix.AT_FDCWD, clone, unix.CLONE_NOFOLLOW|unix.CLONE_NOOWNERCOPY); err != nil {
		return Clonefile, err
	}
	err := os.Chmod(clone, layout.FileMode) // clonefile copies the mode, and the base is 0444
	if err == nil {
		err = os.Rename(clone, dst.Name())
	}
	if err != nil {
		os.Remove(clone)
		return Clonefile, fmt.Errorf("clonefile: %w", err)
	}
	return Clonefile, dst.Reopen()
}

// shared: only ATTR_CMNEXT_PRIVATESIZE of getattrlist(2) knows it here, for which there is no call without cgo.
func shared(*os.File) (int64, error) { return 0, nil }
