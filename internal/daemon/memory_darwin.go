package daemon

import "golang.org/x/sys/unix"

// hostMemoryMiB is the memory of this host, sysctl(3) hw.memsize; 0 when it cannot be told.
func hostMemoryMiB() int {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil {
		return 0
	}
	return int(n >> 20)
}
