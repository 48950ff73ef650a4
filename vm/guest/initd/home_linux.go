package initd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// homeMark is an extended attribute on the root of a home that is set up. Only root sees it (xattr(7), "trusted"), and it
// goes where the file system goes: clones and checkpoints have it, a new one has not.
const homeMark = "trusted.bromure.home"

// homeMode keeps other users of the guest out, as adduser does on Ubuntu.
const homeMode = 0o750

// Limits of what is copied from /etc/skel.
const (
	maxSkelFiles = 1000
	maxSkelFile  = 16 << 20 // bytes
)

// home is a user's directory.
type home struct {
	dir, skel string
	uid, gid  int
	mark      string // name of the extended attribute
}

// setUp makes a fresh home usable: the files of skel, the owner, the mode. A home that was used is not touched. When it is
// cut short it is done again at the next boot; a file is there as a whole or not at all.
func (h home) setUp() error {
	if err := h.fill(); err != nil {
		return fmt.Errorf("set up home: %w", err)
	}
	return nil
}

func (h home) fill() error {
	dir, err := os.OpenRoot(h.dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	d, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer d.Close()
	marked, err := hasMark(d, h.mark)
	if marked || err != nil {
		return err
	}
	have, err := d.Readdirnames(-1)
	if err != nil {
		return err
	}
	offered, err := names(h.skel)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if !freshHome(have, offered) {
		return nil
	}
	for _, name := range have {
		if isTemp(name) {
			if err := dir.RemoveAll(name); err != nil {
				return err
			}
		}
	}
	_ = dir.Remove(lostFound) // it stays when something is in it
	c := copier{dir: dir, uid: h.uid, gid: h.gid, left: maxSkelFiles}
	for _, name := range offered {
		if err := c.copy(filepath.Join(h.skel, name), name); err != nil {
			return fmt.Errorf("copy %s: %w", name, err)
		}
	}
	if err := errors.Join(d.Chown(h.uid, h.gid), d.Chmod(homeMode)); err != nil {
		return err
	}
	// The mark says that all of the above is on the disk, so it is written after that.
	if err := unix.Syncfs(int(d.Fd())); err != nil {
		return err
	}
	if err := unix.Fsetxattr(int(d.Fd()), h.mark, []byte{'1'}, 0); err != nil && err != unix.ENOTSUP {
		return fmt.Errorf("mark it: %w", err)
	}
	return nil
}

func hasMark(d *os.File, mark string) (bool, error) {
	_, err := unix.Fgetxattr(int(d.Fd()), mark, nil)
	if err == unix.ENODATA || err == unix.ENOTSUP {
		return false, nil
	}
	return err == nil, err
}

func names(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}

// copier copies files into a directory and gives them to a user.
type copier struct {
	dir      *os.Root
	uid, gid int
	left     int // files that may still be copied
}

// copy copies the file, link or directory at from. What exists is left alone, except that a directory is completed.
func (c *copier) copy(from, to string) error {
	if c.left--; c.left < 0 {
		return fmt.Errorf("there are more than %d files", maxSkelFiles)
	}
	st, err := os.Lstat(from)
	if err != nil {
		return err
	}
	_, err = c.dir.Lstat(to)
	exists := err == nil
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	switch st.Mode().Type() {
	case fs.ModeDir:
		if !exists {
			if err := c.dir.Mkdir(to, st.Mode().Perm()); err != nil {
				return err
			}
		}
		below, err := names(from)
		if err != nil {
			return err
		}
		for _, name := range below {
			if err := c.copy(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
				return err
			}
		}
		return c.dir.Lchown(to, c.uid, c.gid)
	case 0:
		if exists {
			return nil
		}
		return c.file(from, to, st.Mode().Perm())
	case fs.ModeSymlink:
		if exists {
			return nil
		}
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		if err := c.dir.Symlink(target, to); err != nil {
			return err
		}
		return c.dir.Lchown(to, c.uid, c.gid)
	}
	return nil // a device or socket in /etc/skel is no file to have a copy of
}

func (c *copier) file(from, to string, mode os.FileMode) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	tmp := filepath.Join(filepath.Dir(to), tempPrefix+filepath.Base(to))
	out, err := c.dir.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.LimitReader(in, maxSkelFile))
	if err == nil {
		err = out.Chown(c.uid, c.gid)
	}
	if err == nil {
		err = out.Chmod(mode)
	}
	if e := out.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return c.dir.Rename(tmp, to)
}
