//go:build unix

package atomicfile

import (
	"os"
	"syscall"
)

// noFollow also keeps an open from waiting, should the name be a FIFO's.
const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// claim takes the lock of a temporary file: the maker does for as long as it writes, [Sweep] before it
// removes. ours: the lock was free and name still means that file. sure is false on a file system
// without locks, where nobody can tell whether the maker lives.
func claim(f *os.File, name string) (ours, sure bool) {
	err := syscall.EINTR
	for err == syscall.EINTR {
		err = flock(f)
	}
	if err == syscall.EWOULDBLOCK {
		return false, true
	}
	mine, statErr := f.Stat()
	if statErr != nil {
		return false, false
	}
	named, statErr := os.Lstat(name)
	return statErr == nil && os.SameFile(mine, named), err == 0
}

func flock(f *os.File) syscall.Errno {
	errno, _ := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB).(syscall.Errno)
	return errno
}
