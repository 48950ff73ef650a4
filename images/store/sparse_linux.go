package store

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// nextData finds the first run of data at or after from: bytes start to end; everything before it is a hole (lseek(2)).
// Without data it is empty, at size. A file system that knows no holes says that all is data.
func nextData(f *os.File, from, size int64) (start, end int64, err error) {
	start, err = unix.Seek(int(f.Fd()), from, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		return size, size, nil
	}
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		return from, size, nil
	}
	if err != nil {
		return 0, 0, err
	}
	if end, err = unix.Seek(int(f.Fd()), start, unix.SEEK_HOLE); err != nil {
		return 0, 0, err
	}
	return min(start, size), min(end, size), nil
}
