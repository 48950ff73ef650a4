package qemu

import (
	"strconv"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func itoa(n int) string { return strconv.Itoa(n) }

// syscallForkLock runs f while this process has no child between fork and exec, which would hold
// copies of all our descriptors for an instant.
func syscallForkLock(f func()) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	f()
}
