//go:build !linux

package build

import "syscall"

// ownMounts: nothing is mounted here.
func ownMounts(*syscall.SysProcAttr) {}
