package disk

import (
	"errors"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"bromure.io/tui/internal/atomicfile"
)

// share makes dst a file that shares all blocks with src, if the file system can: FICLONE, ioctl_ficlone(2).
func share(src *os.File, dst *atomicfile.File) (Kind, error) {
	for {
		err := unix.IoctlFileClone(int(dst.Fd()), int(src.Fd()))
		if err == unix.EINTR {
			continue
		}
		return Reflink, err
	}
}

// fiemap and fiemapExtent are the structs of <linux/fiemap.h>.
type fiemap struct {
	start, length          uint64
	flags, mapped, n, resv uint32
	extents                [256]fiemapExtent
}

type fiemapExtent struct {
	logical, physical, length uint64
	resv64                    [2]uint64
	flags                     uint32
	resv                      [3]uint32
}

const (
	fsIocFiemap        = 0xc020660b // FS_IOC_FIEMAP
	fiemapExtentLast   = 0x1
	fiemapExtentShared = 0x2000
)

// shared adds up the extents of f that other files refer to.
func shared(f *os.File) (total int64, err error) {
	var m fiemap
	for at := uint64(0); ; {
		m = fiemap{start: at, length: ^uint64(0) - at, n: uint32(len(m.extents))}
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), fsIocFiemap, uintptr(unsafe.Pointer(&m)))
		switch {
		case errno == unix.EINTR:
			continue
		case errors.Is(errno, unix.EOPNOTSUPP), errno == unix.ENOTTY:
			return 0, nil // tmpfs, for one: nothing is shared there
		case errno != 0:
			return 0, errno
		}
		if m.mapped == 0 {
			return total, nil
		}
		for _, e := range m.extents[:min(int(m.mapped), len(m.extents))] {
			if e.flags&fiemapExtentShared != 0 {
				total += int64(e.length)
			}
			if next := e.logical + e.length; next > at {
				at = next
			} else {
				return total, nil // no progress: a file system that makes no sense
			}
			if e.flags&fiemapExtentLast != 0 {
				return total, nil
			}
		}
	}
}
