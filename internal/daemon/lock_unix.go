//go:build unix

package daemon

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"bromure.io/tui/internal/layout"
)

// lockFile takes the lock that makes this daemon the only one of its data root. It is held until the file
// is closed or the process is gone, however it ends.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_CLOEXEC|unix.O_NOFOLLOW, layout.FileMode)
	if err != nil {
		return nil, fmt.Errorf("open the daemon's lock: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, ErrRunning
		}
		return nil, fmt.Errorf("take the daemon's lock: %w", err)
	}
	return f, nil
}
