//go:build !linux

package build

import (
	"os"
	"syscall"
)

// There is no parent-death signal here, and no mmdebstrap either.
func childAttr() *syscall.SysProcAttr { return nil }

func terminate(p *os.Process) error { return p.Kill() }
