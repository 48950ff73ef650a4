// Package ring keeps a log in a file of bounded size: the newest part of what was written is
// always there, the oldest makes room.
//
// A ring is two files, path and path+".1", each at most half of the bound. Lines go to the end of path;
// when it is full, it is renamed to path+".1" and a new one begun. There is no index: whatever
// a crash leaves is a ring. One process writes to a ring at a time, through one [Writer]; any number may read.
//
// The log of an operation must not fail the operation: a Writer never returns an error and never
// waits for anything but the disk. What a full disk does not take is dropped and counted.
package ring

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"bromure.io/tui/internal/atomicfile"
	"bromure.io/tui/internal/layout"
)

// MinBytes is the smallest bound of a ring.
const MinBytes = 4 << 10

// Writer appends to a ring. Its methods may be called from any goroutine.
type Writer struct {
	path string
	half int64

	mu      sync.Mutex
	f       *os.File // nil after Close, and while it cannot be opened
	size    int64    // of f
	inLine  bool     // f does not end with a newline
	torn    bool     // f ends in the middle of a line whose rest was dropped
	closed  bool
	dropped int64
}

// Open opens the ring at path for writing and makes it when it is missing. It keeps at most maxBytes on disk, and
// of what was written at least the newest half of that. A ring that is larger is cut. A last line that lacks its end, because its
// writer was killed, gets one.
func Open(path string, maxBytes int64) (*Writer, error) {
	if maxBytes < MinBytes {
		return nil, fmt.Errorf("open log %s: %d bytes are too few", path, maxBytes)
	}
	w := &Writer{path: path, half: maxBytes / 2}
	// The sizes are checked at every opening: the bound may have been greater, and path+".1" could be anything.
	for _, p := range []string{old(path), path} {
		if err := trim(p, w.half); err != nil {
			return nil, fmt.Errorf("open log %s: %w", path, err)
		}
	}
	if err := w.open(); err != nil {
		return nil, fmt.Errorf("open log %s: %w", path, err)
	}
	w.torn = w.inLine
	return w, nil
}

func old(path string) string { return path + ".1" }

// open opens the current file. w.mu is held, or w is not shared yet.
func (w *Writer) open() error {
	f, err := os.OpenFile(w.path, os.O_RDWR|os.O_APPEND|os.O_CREATE|openFlags, layout.FileMode)
	if err != nil {
		return err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	var last [1]byte
	if err == nil && fi.Size() > 0 {
		_, err = f.ReadAt(last[:], fi.Size()-1)
	}
	if err != nil {
		f.Close()
		return err
	}
	w.f, w.size, w.inLine = f, fi.Size(), fi.Size() > 0 && last[0] != '\n'
	return nil
}

// Write appends p. It always returns len(p) and nil; see [Writer.Dropped].
func (w *Writer) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		w.dropped += int64(len(p))
		return len(p), nil
	}
	rest := p
	for len(rest) > 0 {
		n, err := w.writeSome(rest)
		if err != nil {
			w.dropped += int64(len(rest) - n)
			break
		}
		rest = rest[n:]
	}
	return len(p), nil
}

// writeSome writes the part of p that belongs into the current file, after making a new one if need be.
func (w *Writer) writeSome(p []byte) (int, error) {
	if w.f == nil {
		if err := w.open(); err != nil {
			return 0, err
		}
	}
	if w.torn {
		if w.size >= w.half {
			return 0, w.rotate()
		}
		if _, err := w.append([]byte{'\n'}); err != nil {
			return 0, err
		}
		w.torn = false
	}
	n := fit(p, w.half-w.size, w.inLine, w.half)
	if n == 0 {
		return 0, w.rotate()
	}
	return w.append(p[:n])
}

// fit says how many bytes of p go into the current file, where room is left: all of them, or as many whole lines as there is
// room for. A line is broken only when it began in this file already or fits into none.
func fit(p []byte, room int64, inLine bool, half int64) int {
	if room <= 0 {
		return 0
	}
	if int64(len(p)) <= room {
		return len(p)
	}
	if i := bytes.LastIndexByte(p[:room], '\n'); i >= 0 {
		return i + 1
	}
	length := int64(bytes.IndexByte(p, '\n') + 1) // of the line that does not fit
	if length == 0 {
		length = int64(len(p))
	}
	if inLine || length > half {
		return int(room)
	}
	return 0
}

func (w *Writer) append(p []byte) (int, error) {
	n, err := w.f.Write(p)
	w.size += int64(n)
	if n > 0 {
		w.inLine = p[n-1] != '\n'
	}
	if err != nil {
		w.torn = w.inLine
	}
	return n, err
}

// rotate makes the current file the old one and begins a new one.
func (w *Writer) rotate() error {
	if err := os.Rename(w.path, old(w.path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // the file is full and stays so; the next Write tries again
	}
	w.f.Close()
	w.f = nil
	inLine := w.inLine
	err := w.open()
	w.inLine = inLine // a broken line goes on
	return err
}

// Dropped is how many bytes could not be written, for want of space as a rule.
func (w *Writer) Dropped() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dropped
}

// Close closes the file. What is written afterwards is dropped.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.f == nil {
		return nil
	}
	err := w.f.Close()
	w.f = nil
	return err
}

// trim cuts the beginning off a file that has more than limit bytes.
func trim(path string, limit int64) error {
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", path)
	}
	if fi.Size() <= limit {
		return nil
	}
	_ = atomicfile.Sweep(filepath.Dir(path))
	if keepTail(path, fi.Size(), limit) == nil {
		return nil
	}
	// No room even for the part to be kept: the bound comes first.
	return os.Truncate(path, 0)
}

// keepTail replaces the file by its last whole lines that have up to limit bytes.
func keepTail(path string, size, limit int64) error {
	from, err := os.OpenFile(path, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return err
	}
	defer from.Close()
	tail := make([]byte, limit)
	n, err := from.ReadAt(tail, size-limit)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	tail = tail[:n]
	if i := bytes.IndexByte(tail, '\n'); i >= 0 && i < n-1 {
		tail = tail[i+1:]
	}
	return atomicfile.Write(path, tail, layout.FileMode)
}
