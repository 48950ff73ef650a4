package build

import (
	"os"
	"syscall"
)

// childAttr makes a child end in good order when this process is killed.
func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
}

func terminate(p *os.Process) error { return p.Signal(syscall.SIGTERM) }
