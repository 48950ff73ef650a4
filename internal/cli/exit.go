package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"bromure.io/tui/internal/problem"
)

// Exit codes. `vm exec`, `vm attach` and `vm run` with a command exit with the code of the program in
// the guest instead, 128+n after signal n; a front that was ended by a signal does the same.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitRefused     = 4 // the state does not allow it
	exitDenied      = 5 // the user said no
	exitUnreachable = 6 // no daemon answers
	exitUnverified  = 7 // a hash or a signature does not match
	exitSignal      = 128
)

// exitError ends the program with a code, silently: everything has been said.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// signalError is why a context ended.
type signalError struct{ sig os.Signal }

func (e signalError) Error() string { return "ended by signal: " + e.sig.String() }

func (e signalError) code() int {
	if n, ok := e.sig.(syscall.Signal); ok {
		return exitSignal + int(n)
	}
	return exitFailed
}

// exitCode is how the program ends after err.
func exitCode(ctx context.Context, err error) int {
	if err == nil {
		return exitOK
	}
	if e, ok := errors.AsType[exitError](err); ok {
		return int(e)
	}
	// Whatever failed after a signal failed because of it.
	for _, err := range []error{err, context.Cause(ctx)} {
		if e, ok := errors.AsType[signalError](err); ok {
			return e.code()
		}
	}
	switch problem.KindOf(err) {
	case problem.Usage:
		return exitUsage
	case problem.NotFound:
		return exitNotFound
	case problem.Refused:
		return exitRefused
	case problem.Denied:
		return exitDenied
	case problem.Unreachable:
		return exitUnreachable
	case problem.Unverified:
		return exitUnverified
	}
	return exitFailed
}
