package vm

import "errors"

var (
	// ErrGone: the machine that a record names does not run any more.
	ErrGone = errors.New("the machine is gone")
	// ErrLocked: another process holds the lock of the workspace.
	ErrLocked = errors.New("the workspace is in use")
	// ErrUnsupported: this backend or this file system cannot do it.
	ErrUnsupported = errors.New("not supported here")
)
