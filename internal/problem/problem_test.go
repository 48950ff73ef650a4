package problem

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"testing"
)

func TestProblem(t *testing.T) {
	cause := errors.New("cause")
	inner := Wrap(NotFound, cause, "find it", "Look there.")
	for _, c := range []struct {
		err       error
		msg       string
		kind      Kind
		hint      string
		hasReason bool
	}{
		{cause, "cause", Failed, "", true},
		{New(Usage, "bad flag", "Read the help."), "bad flag", Usage, "Read the help.", false},
		{inner, "find it: cause", NotFound, "Look there.", true},
		{fmt.Errorf("start: %w", inner), "start: find it: cause", NotFound, "Look there.", true},
		{Wrap(Refused, inner, "start", ""), "start: find it: cause", Refused, "Look there.", true}, // the hint is the cause's
		{Wrap(Refused, inner, "start", "Wait."), "start: find it: cause", Refused, "Wait.", true},
		{Wrap(Refused, cause, "", ""), "cause", Refused, "", true},
		{Wrap(Refused, fmt.Errorf("a: %w", Wrap(Failed, fmt.Errorf("b: %w", inner), "", "")), "", ""), "a: b: find it: cause", Refused, "Look there.", true},
	} {
		if c.err.Error() != c.msg || KindOf(c.err) != c.kind || HintOf(c.err) != c.hint || errors.Is(c.err, cause) != c.hasReason {
			t.Errorf("%q (%s), hint %q, cause %v; want %+v", c.err, KindOf(c.err), HintOf(c.err), errors.Is(c.err, cause), c)
		}
	}
	if Wrap(Failed, nil, "x", "y") != nil {
		t.Error("no error became a problem")
	}
	if KindOf(nil) != Failed || HintOf(nil) != "" {
		t.Errorf("of no error: %s, %q", KindOf(nil), HintOf(nil))
	}
}

func TestOfDisk(t *testing.T) {
	for _, errno := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		full := fmt.Errorf("write: %w", &fs.PathError{Op: "write", Path: "/x", Err: errno})
		err := OfDisk(full, "/x")
		if !IsFull(err) || HintOf(err) == "" || err.Error() != full.Error() {
			t.Errorf("%v: hint %q", err, HintOf(err))
		}
	}
	other := errors.New("other")
	if OfDisk(other, "/x") != other || OfDisk(nil, "/x") != nil || IsFull(nil) {
		t.Error("an error that is about no full disk has changed")
	}
}
