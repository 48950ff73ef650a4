package login

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// maxFile bounds how much of a file is read, in bytes.
const maxFile = 1 << 20

// settled is how old a file's last change has to be before its content is kept. Time stamps of files are as coarse as the
// kernel's tick, so a file that was just written may be written again without showing it.
const settled = 2 * time.Second

// file is what was read of a file, and by what it is known to be unchanged.
type file struct {
	dev, ino       uint64
	size           int64
	mtime, changed int64 // ns
	text           []byte
}

// read returns the content of a file in the directory. The caller must not change it.
func (e *Etc) read(name string) ([]byte, error) {
	path := filepath.Join(e.dir, name)
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return nil, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	// A FIFO or a device in its place must not block us.
	if st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		return nil, fmt.Errorf("read %s: not a regular file", path)
	}
	now := identity(&st)
	e.mu.Lock()
	defer e.mu.Unlock()
	if f, ok := e.files[name]; ok && f.dev == now.dev && f.ino == now.ino && f.size == now.size && f.mtime == now.mtime && f.changed == now.changed {
		return f.text, nil
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // it may have become a FIFO
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if now.text, err = io.ReadAll(io.LimitReader(f, maxFile)); err != nil {
		return nil, err
	}
	delete(e.files, name)
	if e.now().Sub(time.Unix(0, now.changed)) > settled && int64(len(now.text)) == now.size {
		e.files[name] = now
	}
	return now.text, nil
}

// lines calls f with each line of a file, less comments and blanks, until f returns false.
func (e *Etc) lines(name string, f func(string) bool) error {
	text, err := e.read(name)
	if err != nil {
		return err
	}
	for line := range bytes.Lines(text) {
		s := strings.TrimSpace(string(line))
		if s != "" && s[0] != '#' && !f(s) {
			break
		}
	}
	return nil
}
