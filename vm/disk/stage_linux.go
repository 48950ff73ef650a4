package disk

import (
	"os"

	"golang.org/x/sys/unix"
)

// stage makes a file in memory, in which mke2fs works before its result is copied to the disk: it syncs four
// times, which costs more than all the rest (measured on a busy disk: 53 instead of 85 ms on XFS). The path is the file's for a
// child that gets it as descriptor 3. Where there are no such files, f is nil.
func stage() (f *os.File, path string) {
	fd, err := unix.MemfdCreate("home.img", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, ""
	}
	return os.NewFile(uintptr(fd), "home.img in memory"), "/proc/self/fd/3"
}
