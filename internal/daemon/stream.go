package daemon

import (
	"errors"
	"io"

	"bromure.io/tui/internal/control"
	"bromure.io/tui/vm/link"
)

// stream is a session in the guest as fronts see it.
type stream struct{ *link.Session }

var _ control.Stream = stream{}

func (s stream) Stdin() io.WriteCloser { return s.Session.Stdin }
func (s stream) Stdout() io.Reader     { return s.Session.Stdout }
func (s stream) Stderr() io.Reader     { return s.Session.Stderr }

// Wait returns the exit code. A program that could not be started has the code that a shell would give.
func (s stream) Wait() (int, error) {
	exit, err := s.Session.Wait()
	if se, ok := errors.AsType[*link.StartError](err); ok {
		return se.Code, err
	}
	return exit.Code, err
}
