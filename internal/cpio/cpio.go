// Package cpio writes archives in the "newc" format that Linux unpacks as an
// initramfs (Documentation/driver-api/early-userspace/buffer-format.rst in the kernel's sources).
// The same calls always give the same bytes: no times, owners or inode numbers of the host get in.
// Archives may be written one after the other into one file; of two files with
// one name the later wins. It imports nothing of ours.
package cpio

import (
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

const (
	magic   = "070701"
	trailer = "TRAILER!!!"

	typeDir  = 0o040000
	typeFile = 0o100000
	typeChar = 0o020000

	// maxName is the kernel's limit: PATH_MAX, with the NUL.
	maxName = 4096
)

// Writer writes one archive. The first error sticks: every later call returns it.
type Writer struct {
	w    io.Writer
	ino  uint32
	dirs map[string]bool
	err  error
}

// NewWriter returns a Writer to w. The archive is complete only after [Writer.Close].
func NewWriter(w io.Writer) *Writer {
	return &Writer{w: w, dirs: map[string]bool{".": true}}
}

// Dir adds a directory with the permission bits of mode. Its parent must have been added before, since
// the kernel makes none by itself. Adding one again is not an error.
func (w *Writer) Dir(name string, mode uint32) error {
	name, err := w.clean(name)
	if err != nil {
		return err
	}
	if w.dirs[name] {
		return nil
	}
	w.dirs[name] = true
	return w.entry(name, typeDir|mode&0o7777, 2, nil, device{})
}

// File adds a regular file. Its directory must have been added before.
func (w *Writer) File(name string, mode uint32, data []byte) error {
	name, err := w.clean(name)
	if err != nil {
		return err
	}
	if w.dirs[name] {
		return w.fail(fmt.Errorf("cpio: %s is a directory already", name))
	}
	return w.entry(name, typeFile|mode&0o7777, 1, data, device{})
}

// CharDevice adds the node of a character device; no right of the host is needed for that. Its directory must
// have been added before.
func (w *Writer) CharDevice(name string, mode, major, minor uint32) error {
	name, err := w.clean(name)
	if err != nil {
		return err
	}
	if w.dirs[name] {
		return w.fail(fmt.Errorf("cpio: %s is a directory already", name))
	}
	return w.entry(name, typeChar|mode&0o7777, 1, nil, device{major, minor})
}

// Close ends the archive. It does not close the underlying writer.
func (w *Writer) Close() error {
	if w.err != nil {
		return w.err
	}
	w.ino = 0 // the trailer has none
	if err := w.header(trailer, 0, 1, 0, device{}); err != nil {
		return err
	}
	w.err = errors.New("cpio: write after Close")
	return nil
}

// clean turns an absolute or relative name into the form that the archive has: no leading slash.
func (w *Writer) clean(name string) (string, error) {
	if w.err != nil {
		return "", w.err
	}
	rel := strings.TrimPrefix(name, "/")
	switch {
	case rel == "" || rel == "." || rel != path.Clean(rel) || rel == ".." || strings.HasPrefix(rel, "../"),
		strings.ContainsRune(rel, 0), len(rel) >= maxName, rel == trailer:
		return "", w.fail(fmt.Errorf("cpio: not a name for an archive: %q", name))
	case !w.dirs[path.Dir(rel)]:
		return "", w.fail(fmt.Errorf("cpio: the directory of %s was not added", rel))
	}
	return rel, nil
}

func (w *Writer) fail(err error) error {
	w.err = err
	return err
}

// device is what a node stands for; zero for everything that is no device.
type device struct{ major, minor uint32 }

func (w *Writer) entry(name string, mode uint32, nlink int, data []byte, dev device) error {
	if uint64(len(data)) > 1<<32-1 {
		return w.fail(fmt.Errorf("cpio: %s is larger than 4 GiB", name))
	}
	w.ino++
	if err := w.header(name, mode, nlink, len(data), dev); err != nil {
		return err
	}
	if err := w.write(data); err != nil {
		return err
	}
	return w.pad(len(data))
}

// header writes the 110 bytes of fields, the name with its NUL, and padding to 4 bytes. In order: ino, mode, uid, gid, nlink, mtime,
// filesize, devmajor, devminor, rdevmajor, rdevminor, namesize, check.
func (w *Writer) header(name string, mode uint32, nlink, size int, dev device) error {
	h := fmt.Sprintf("%s%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00", magic,
		w.ino, mode, 0, 0, nlink, 0, size, 0, 0, dev.major, dev.minor, len(name)+1, 0, name)
	if err := w.write([]byte(h)); err != nil {
		return err
	}
	return w.pad(len(h))
}

func (w *Writer) pad(n int) error {
	return w.write(make([]byte, -n&3))
}

func (w *Writer) write(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if _, err := w.w.Write(b); err != nil {
		return w.fail(fmt.Errorf("cpio: %w", err))
	}
	return nil
}
