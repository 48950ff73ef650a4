package wire

import (
	"context"
	"errors"

	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
)

// Error is the body of every answer that is not 2xx, and stands in the last [Progress].
type Error struct {
	Kind problem.Kind `json:"kind"`
	Msg  string       `json:"error"`
	Hint string       `json:"hint,omitempty"`
	Step string       `json:"step,omitempty"` // of a start that failed
}

func (e *Error) Error() string { return e.Msg }

// Stepper is an error that knows the step of the start that failed.
type Stepper interface {
	error
	FailedStep() string
}

// FromError makes the wire form of err; nil stays nil.
func FromError(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok && e == err {
		return e
	}
	e := &Error{Kind: kindOf(err), Msg: err.Error(), Hint: problem.HintOf(err)}
	if s, ok := errors.AsType[Stepper](err); ok {
		e.Step = s.FailedStep()
	}
	return e
}

// kindOf knows some errors that carry no problem.
func kindOf(err error) problem.Kind {
	if kind := problem.KindOf(err); kind != problem.Failed {
		return kind
	}
	switch {
	case errors.Is(err, context.Canceled):
		return problem.Interrupted
	case errors.Is(err, context.DeadlineExceeded):
		return problem.DeadlineMiss
	case errors.Is(err, vm.ErrLocked):
		return problem.Refused
	}
	return problem.Failed
}

// Problem is the error that a front shows.
func (e *Error) Problem() error {
	if e == nil {
		return nil
	}
	return problem.New(e.Kind, e.Msg, e.Hint)
}
