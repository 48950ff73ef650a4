//go:build unix

package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
)

func ownSession() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// WaitGone returns when no daemon holds the lock of the data root: the last one has ended, whatever its
// process ID is used for by now. It tries for a shared lock; a daemon that starts in that instant loses and is started
// again by its front.
func WaitGone(ctx context.Context, root layout.Root) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		free, err := lockFree(root.DaemonLock())
		if err != nil {
			return fmt.Errorf("wait for the daemon to end: %w", err)
		}
		if free {
			return nil
		}
		select {
		case <-ctx.Done():
			return problem.Wrap(problem.DeadlineMiss, context.Cause(ctx), "wait for the daemon to end", "`daemon logs` shows what it does.")
		case <-tick.C:
		}
	}
}

func lockFree(path string) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		return false, nil
	}
	return err == nil, err
}
