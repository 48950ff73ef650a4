package initd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"bromure.io/tui/vm/guest"
)

// loadModules loads the kernel modules that the initramfs brings, in their order. An initramfs without the list has a
// kernel that needs none.
func loadModules() error {
	b, err := readFile(guest.ModulesOrder, maxOrderFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	names, err := parseOrder(b)
	if err != nil {
		return err
	}
	dir := filepath.Dir(guest.ModulesOrder)
	for _, name := range names {
		if err := loadModule(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("load module %s: %w", name, err)
		}
	}
	return nil
}

func loadModule(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	// EEXIST: loaded already, or built in. ENODEV: its device is not in this machine.
	err = unix.FinitModule(int(f.Fd()), "", 0)
	if err == unix.EEXIST || err == unix.ENODEV {
		return nil
	}
	return err
}
