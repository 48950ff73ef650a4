//go:build unix

package removal

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// rename moves name out of an opened directory to an absolute path on the same file system, replacing nothing.
func rename(from *os.Root, name, to string) error {
	dir, err := from.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Renameat(int(dir.Fd()), name, unix.AT_FDCWD, to); err != nil {
		return &os.LinkError{Op: "rename", Old: name, New: to, Err: err}
	}
	return nil
}

// Identity tells a file from every other that exists at the same time: device and inode, stat(2).
func Identity(fi fs.FileInfo) string {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return ""
	}
	return fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}
