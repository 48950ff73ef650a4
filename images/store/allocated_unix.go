//go:build unix

package store

import (
	"io/fs"
	"syscall"
)

// Allocated is how much room a file takes, in bytes: stat(2) counts blocks of 512.
func Allocated(fi fs.FileInfo) int64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return int64(st.Blocks) * 512
	}
	return fi.Size()
}
