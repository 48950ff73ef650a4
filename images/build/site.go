package build

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"bromure.io/tui/images"
	"bromure.io/tui/images/store"
	"bromure.io/tui/internal/atomicfile"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
)

// site is where one build works: a directory beside the images, which becomes one by a rename as the last step.
type site struct {
	images  string
	lock    *os.File
	dir     string // becomes the image
	scratch string // is thrown away
}

// openSite takes the lock of builds, removes what dead ones left and makes the directories of this one.
func openSite(imagesDir string) (_ *site, err error) {
	if err := os.MkdirAll(imagesDir, layout.DirMode); err != nil {
		return nil, err
	}
	name := filepath.Join(imagesDir, layout.BuildLock)
	lock, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, layout.FileMode)
	if err != nil {
		return nil, err
	}
	s := &site{images: imagesDir, lock: lock}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	// The kernel gives the lock up when its holder dies, so a directory found under it is a dead build's.
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return nil, problem.New(problem.Refused, "another build is running in "+imagesDir, "Wait until it is done; bromure-cli image ls then shows its image.")
	} else if err != nil {
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	entries, err := os.ReadDir(imagesDir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), layout.BuildPrefix) {
			if err := os.RemoveAll(filepath.Join(imagesDir, e.Name())); err != nil {
				return nil, fmt.Errorf("remove what a dead build left: %w", err)
			}
		}
	}
	if s.dir, err = os.MkdirTemp(imagesDir, layout.BuildPrefix); err != nil {
		return nil, err
	}
	if s.scratch, err = os.MkdirTemp(imagesDir, layout.BuildPrefix); err != nil {
		return nil, err
	}
	return s, nil
}

// close removes what was not kept and gives the lock up.
func (s *site) close() {
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
	if s.scratch != "" {
		_ = os.RemoveAll(s.scratch)
	}
	_ = s.lock.Close()
}

// keep makes the directory an image, all or nothing. It says false when an image with that content is there already.
func (s *site) keep(m images.Manifest) (bool, error) {
	data, err := m.Marshal()
	if err != nil {
		return false, err
	}
	if err := writeFile(layout.ImageDir(s.dir).Manifest(), data); err != nil {
		return false, err
	}
	for _, f := range m.Files {
		name := filepath.Join(s.dir, f.Name)
		if err := os.Chmod(name, layout.BaseMode); err != nil {
			return false, err
		}
		if err := syncFile(name); err != nil {
			return false, err
		}
	}
	if err := atomicfile.SyncDir(s.dir); err != nil {
		return false, err
	}
	st := store.Store{Dir: s.images}
	place := string(st.Path(m.Ref))
	if _, err := st.Get(m.Ref); err == nil {
		return false, nil
	}
	// What stands there under this reference and cannot be used gives way. It goes into the scratch directory
	// first, so that a kill between the two renames leaves no image rather than half of one.
	if err := os.Rename(place, filepath.Join(s.scratch, "broken")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return false, err
	}
	if err := os.Rename(s.dir, place); err != nil {
		return false, err
	}
	return true, atomicfile.SyncDir(s.images)
}

func syncFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
