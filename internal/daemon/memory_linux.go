package daemon

import "golang.org/x/sys/unix"

// hostMemoryMiB is the memory of this host, sysinfo(2); 0 when it cannot be told.
func hostMemoryMiB() int {
	var si unix.Sysinfo_t
	if err := unix.Sysinfo(&si); err != nil {
		return 0
	}
	return int(si.Totalram * uint64(si.Unit) >> 20)
}
