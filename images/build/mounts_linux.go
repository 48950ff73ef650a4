package build

import (
	"os"
	"os/exec"
	"syscall"
)

// ownMounts gives a child of root its own mount namespace: what it mounts below its tree goes away with it, however it ends.
// (For others mmdebstrap makes one itself.) The host's /proc, left mounted in a tree that is then removed, would be emptied.
func ownMounts(attr *syscall.SysProcAttr) {
	if os.Geteuid() != 0 {
		return
	}
	// A container's root may not be allowed to; mmdebstrap then finds a way without mounts.
	probe := exec.Command("/bin/true")
	probe.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if probe.Run() == nil {
		attr.Unshareflags = syscall.CLONE_NEWNS // and the runtime makes it private
	}
}
