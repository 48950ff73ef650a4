//go:build unix

package disk

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// openFlags: links are not followed, and a FIFO in the file's place does not make an open wait.
const openFlags = unix.O_NOFOLLOW | unix.O_NONBLOCK

// allocated is st_blocks, which counts units of 512 bytes whatever the file system's block size (stat(2)).
func allocated(fi fs.FileInfo) int64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return int64(st.Blocks) * 512
	}
	return fi.Size()
}

func free(path string) (int64, error) {
	var st unix.Statfs_t
	for {
		err := unix.Statfs(path, &st)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0, &fs.PathError{Op: "statfs", Path: path, Err: err}
		}
		return int64(st.Bavail) * int64(st.Bsize), nil
	}
}
