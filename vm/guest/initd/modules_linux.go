package initd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// modules are kernel modules in the order in which they are to be loaded. The files are open, so that loading
// them does not depend on where the root is.
type modules []*os.File

// openModules opens the modules that the initramfs brings in dir, as the file order there lists them. An
// initramfs without that file has a kernel that needs none.
func openModules(dir, order string) (modules, error) {
	b, err := readFile(filepath.Join(dir, order), maxOrderFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names, err := parseOrder(b)
	if err != nil {
		return nil, err
	}
	var m modules
	for _, name := range names {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			m.close()
			return nil, fmt.Errorf("open a module: %w", err)
		}
		m = append(m, f)
	}
	return m, nil
}

func (m modules) close() {
	for _, f := range m {
		f.Close()
	}
}

// load loads them and closes the files.
func (m modules) load() error {
	defer m.close()
	for _, f := range m {
		// EEXIST: loaded already, or built in. ENODEV: its device is not in this machine.
		err := unix.FinitModule(int(f.Fd()), "", 0)
		if err != nil && err != unix.EEXIST && err != unix.ENODEV {
			return fmt.Errorf("load module %s: %w", filepath.Base(f.Name()), err)
		}
	}
	return nil
}
