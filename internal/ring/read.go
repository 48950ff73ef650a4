package ring

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"
)

// Read opens what the ring at path holds now, from the last tail lines on; a negative tail means all of
// it. A ring that does not exist is empty.
func Read(path string, tail int) (io.ReadCloser, error) {
	s, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	from, err := s.tail(tail)
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("read log: %w", err)
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(s, from, s.size()-from), s}, nil
}

// snapshot is the two files of a ring at one moment, read as one.
type snapshot struct {
	files []*os.File // the older one first
	sizes []int64
}

// openTries bounds how often open begins again because the ring was rotated meanwhile.
const openTries = 10

func open(path string) (*snapshot, error) {
	for try := 1; ; try++ {
		s := &snapshot{}
		err := errors.Join(s.add(old(path)), s.add(path))
		if err == nil {
			// The newer file was opened last: if it still has its name, nothing was rotated in between.
			if try == openTries || s.current(path) {
				return s, nil
			}
			s.Close()
			continue
		}
		s.Close()
		return nil, err
	}
}

// add opens one more file, if it exists.
func (s *snapshot) add(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY|openFlags, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	if err != nil {
		f.Close()
		return err
	}
	s.files, s.sizes = append(s.files, f), append(s.sizes, fi.Size())
	return nil
}

// current says whether the files are those that have the ring's names now.
func (s *snapshot) current(path string) bool {
	var names int
	for _, p := range []string{old(path), path} {
		fi, err := os.Lstat(p)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil || names == len(s.files) || !sameFile(s.files[names], fi) {
			return false
		}
		names++
	}
	return names == len(s.files)
}

func sameFile(f *os.File, fi os.FileInfo) bool {
	mine, err := f.Stat()
	return err == nil && os.SameFile(mine, fi)
}

func (s *snapshot) size() (n int64) {
	for _, size := range s.sizes {
		n += size
	}
	return n
}

// ReadAt reads across the files, for io.SectionReader.
func (s *snapshot) ReadAt(p []byte, off int64) (n int, err error) {
	for i, f := range s.files {
		if off >= s.sizes[i] {
			off -= s.sizes[i]
			continue
		}
		part := p[n:min(int64(len(p)), int64(n)+s.sizes[i]-off)]
		m, err := f.ReadAt(part, off)
		n += m
		if m < len(part) {
			if err == nil {
				err = io.ErrUnexpectedEOF
			}
			return n, err
		}
		if n == len(p) {
			return n, nil
		}
		off = 0
	}
	return n, io.EOF
}

// tail is where the last lines begin. A last line without a newline counts.
func (s *snapshot) tail(lines int) (int64, error) {
	size := s.size()
	if lines < 0 {
		return 0, nil
	}
	if lines == 0 {
		return size, nil
	}
	buf := make([]byte, 32<<10)
	for end := size; end > 0; {
		block := buf[:min(int64(len(buf)), end)]
		begin := end - int64(len(block))
		if _, err := s.ReadAt(block, begin); err != nil {
			return 0, err
		}
		for i := len(block); i > 0; {
			if i = bytes.LastIndexByte(block[:i], '\n'); i < 0 {
				break
			}
			if at := begin + int64(i) + 1; at < size { // the newline at the very end begins no line
				if lines--; lines == 0 {
					return at, nil
				}
			}
		}
		end = begin
	}
	return 0, nil
}

func (s *snapshot) Close() error {
	var err error
	for _, f := range s.files {
		err = errors.Join(err, f.Close())
	}
	return err
}

// Follow is Read that waits for more: its Read blocks until there is something, and returns io.EOF
// after ctx has ended or the reader was closed. It goes on across rotations, and with a ring that is made
// later. A reader that is slower than the writer by more than the ring holds misses what was dropped.
func Follow(ctx context.Context, path string, tail int) (io.ReadCloser, error) {
	s, err := open(path)
	if err != nil {
		return nil, fmt.Errorf("follow log: %w", err)
	}
	from, err := s.tail(tail)
	if err != nil {
		s.Close()
		return nil, fmt.Errorf("follow log: %w", err)
	}
	f := &follower{path: path, files: s.files}
	f.ctx, f.cancel = context.WithCancel(ctx)
	for i, size := range s.sizes {
		skip := min(from, size)
		if _, err := s.files[i].Seek(skip, io.SeekStart); err != nil {
			s.Close()
			return nil, fmt.Errorf("follow log: %w", err)
		}
		from -= skip
	}
	return f, nil
}

// The pauses between two looks at a file that has not grown. Polling works on every file system and in every
// process; a look is two system calls.
const (
	minPause = 10 * time.Millisecond
	maxPause = 200 * time.Millisecond
)

type follower struct {
	path   string
	ctx    context.Context
	cancel context.CancelFunc

	mu    sync.Mutex
	files []*os.File // to be read in this order; the last one may grow
}

// Read has one caller at a time.
func (f *follower) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		if f.ctx.Err() != nil {
			return 0, io.EOF
		}
		n, err := f.look(p)
		if n > 0 || err != nil {
			return n, err
		}
		select {
		case <-f.ctx.Done():
			return 0, io.EOF
		case <-time.After(pause):
		}
	}
}

// look reads what is there, and moves on to the next file when there is one.
func (f *follower) look(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx.Err() != nil {
		return 0, io.EOF // closed: the files are, too
	}
	for {
		if len(f.files) == 0 {
			if more, err := f.newer(nil); err != nil || !more {
				return 0, err
			}
		}
		head := f.files[0]
		if n, err := head.Read(p); n > 0 || err != nil && err != io.EOF {
			return n, err
		}
		if len(f.files) == 1 {
			if err := rewind(head); err != nil {
				return 0, err
			}
			if more, err := f.newer(head); err != nil || !more {
				return 0, err
			}
			// The writer opens a new file only after its last write to this one: read that first.
			if n, err := head.Read(p); n > 0 || err != nil && err != io.EOF {
				return n, err
			}
		}
		head.Close()
		f.files = f.files[1:]
	}
}

// newer looks for files that came after the one that is being read, and queues them.
func (f *follower) newer(after *os.File) (bool, error) {
	if after != nil {
		if fi, err := os.Lstat(f.path); err != nil || sameFile(after, fi) {
			return false, nil // between two files, or nothing new
		}
	}
	s, err := open(f.path)
	if err != nil {
		return false, err
	}
	for i := range s.files {
		if fi, err := s.files[i].Stat(); after != nil && err == nil && sameFile(after, fi) {
			// Files up to this one are read.
			for _, done := range s.files[:i+1] {
				done.Close()
			}
			s.files = s.files[i+1:]
			break
		}
	}
	f.files = append(f.files, s.files...)
	return len(s.files) > 0, nil
}

// rewind begins a file again that somebody has made shorter.
func rewind(f *os.File) error {
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return err
	}
	fi, err := f.Stat()
	if err != nil || fi.Size() >= at {
		return err
	}
	_, err = f.Seek(0, io.SeekStart)
	return err
}

// Close ends a Read that waits.
func (f *follower) Close() error {
	f.cancel()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, file := range f.files {
		file.Close()
	}
	f.files = nil
	return nil
}
