package link

import (
	"strings"

	"bromure.io/tui/vm/guest"
)

// cleanError is an error whose text may hold words of the guest's, such as the reason of a disconnect.
type cleanError struct{ err error }

func (e cleanError) Error() string { return guest.Clean(e.err.Error(), maxText) }
func (e cleanError) Unwrap() error { return e.err }

// cleaned makes the text of err fit to be shown.
func cleaned(err error) error {
	if err == nil {
		return nil
	}
	return cleanError{err}
}

// isAuthError reports whether a handshake failed because no key was accepted. The library
// has only text for it, which its own tests compare with.
func isAuthError(err error) bool {
	return strings.Contains(err.Error(), "unable to authenticate, attempted methods")
}
