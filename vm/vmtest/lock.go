//go:build unix

package vmtest

import (
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"bromure.io/tui/vm"
)

func flock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }

// lockFree tries the lock with a descriptor of its own, while this process has no child between
// fork and exec: that one would hold copies of all our descriptors for an instant.
func lockFree(t *testing.T, spec vm.Spec) bool {
	t.Helper()
	f, err := os.Open(spec.Lock.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return flock(f) == nil
}
