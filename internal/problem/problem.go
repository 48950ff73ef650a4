// Package problem gives errors a kind that fronts can branch on and a hint
// that tells the user what to do next. It imports nothing of ours.
//
// An error without a Problem in its chain is an internal failure ([Failed]).
package problem

import (
	"errors"
	"syscall"
)

// Kind is what sort of thing went wrong; it decides the exit code of a
// command and the HTTP status of a route, nothing else.
type Kind string

const (
	Failed       Kind = "failed"      // the operation was tried and did not work
	Usage        Kind = "usage"       // the request itself makes no sense
	NotFound     Kind = "not-found"   // no such workspace, image or file
	Refused      Kind = "refused"     // the state does not allow it (running, compromised, locked)
	Denied       Kind = "denied"      // the user said no
	Unreachable  Kind = "unreachable" // the daemon does not answer
	Unverified   Kind = "unverified"  // a hash or a signature does not match
	Missing      Kind = "missing"     // a program, a device or a right that the host must provide is not there
	Interrupted  Kind = "interrupted" // given up because the caller went away or a signal came
	DeadlineMiss Kind = "deadline"    // something did not answer in time
)

// Problem is an error with a kind and a hint.
type Problem struct {
	Kind Kind
	Msg  string // the act, the object; lower case, no full stop
	Hint string // what the user can do, a full sentence or a command; may be empty
	Err  error  // the cause; may be nil
}

func (p *Problem) Error() string {
	if p.Err == nil {
		return p.Msg
	}
	if p.Msg == "" {
		return p.Err.Error()
	}
	return p.Msg + ": " + p.Err.Error()
}

func (p *Problem) Unwrap() error { return p.Err }

// New returns a problem without a cause.
func New(kind Kind, msg, hint string) error {
	return &Problem{Kind: kind, Msg: msg, Hint: hint}
}

// Wrap returns err as a problem of the given kind; nil stays nil.
func Wrap(kind Kind, err error, msg, hint string) error {
	if err == nil {
		return nil
	}
	return &Problem{Kind: kind, Msg: msg, Hint: hint, Err: err}
}

// IsFull says whether err is a full disk or a used-up quota.
func IsFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// OfDisk is err as a problem whose hint says where to make room, when it is about a full disk; other
// errors stay as they are. path is a file on the volume.
func OfDisk(err error, path string) error {
	if !IsFull(err) {
		return err
	}
	return Wrap(Failed, err, "", "Make room on the volume that holds "+path+" and try again.")
}

// KindOf is the kind of the outermost problem in err's chain, [Failed] when there is none.
func KindOf(err error) Kind {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p.Kind
	}
	return Failed
}

// HintOf is the first hint in err's chain, outermost first.
func HintOf(err error) string {
	for err != nil {
		p, ok := errors.AsType[*Problem](err)
		if !ok {
			return ""
		}
		if p.Hint != "" {
			return p.Hint
		}
		err = p.Err
	}
	return ""
}
