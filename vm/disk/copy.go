package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// copyBuffer is how much is read at once. read(2) and write(2) with such a buffer take half the time of
	// copy_file_range(2) on ext4, which moves page by page.
	copyBuffer = 1 << 20
	// copyBlock is the unit in which zeroes become holes: a multiple of every file system's block that matters.
	copyBlock = 64 << 10
)

// copySparse copies size bytes to a file that is empty. Holes of the source and blocks of zeroes become holes.
func copySparse(ctx context.Context, from, to *os.File, size int64, pause func()) error {
	if err := to.Truncate(size); err != nil {
		return err
	}
	buf := make([]byte, copyBuffer)
	zero := make([]byte, copyBlock)
	for at := int64(0); at < size; {
		begin, end, err := nextData(from, at, size)
		if err != nil {
			return err
		}
		for at = begin; at < end; {
			if err := ctx.Err(); err != nil {
				return err
			}
			n, err := from.ReadAt(buf[:min(int64(len(buf)), end-at)], at)
			if n == 0 && errors.Is(err, io.EOF) {
				return fmt.Errorf("%s became shorter while it was copied", from.Name())
			}
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			if err := writeData(to, buf[:n], at, zero); err != nil {
				return err
			}
			at += int64(n)
			if pause != nil {
				pause()
			}
		}
	}
	return nil
}

// nextData finds the next part of the file, from at on, that is not a hole: begin == end == size when
// there is none. A file system that knows no holes answers that all is data.
func nextData(f *os.File, at, size int64) (begin, end int64, err error) {
	begin, err = f.Seek(at, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return size, size, nil
	case errors.Is(err, unix.EINVAL):
		return at, size, nil
	case err != nil:
		return 0, 0, err
	}
	end, err = f.Seek(begin, unix.SEEK_HOLE)
	if err != nil {
		return 0, 0, err
	}
	if begin < at || end <= begin {
		return at, size, nil // an answer that makes no sense
	}
	return min(begin, size), min(end, size), nil
}

// writeData writes p at off, without its blocks of zeroes.
func writeData(to *os.File, p []byte, off int64, zero []byte) error {
	for len(p) > 0 {
		skip, n := 0, 0
		for skip < len(p) && isZero(p[skip:min(len(p), skip+copyBlock)], zero) {
			skip = min(len(p), skip+copyBlock)
		}
		p, off = p[skip:], off+int64(skip)
		for n < len(p) && !isZero(p[n:min(len(p), n+copyBlock)], zero) {
			n = min(len(p), n+copyBlock)
		}
		if n == 0 {
			continue
		}
		if _, err := to.WriteAt(p[:n], off); err != nil {
			return err
		}
		p, off = p[n:], off+int64(n)
	}
	return nil
}

func isZero(p, zero []byte) bool { return string(p) == string(zero[:len(p)]) }
