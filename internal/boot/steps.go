package boot

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// step is one stage of a start. undo, where there is one, is called when a later step fails, in
// reverse order; it must not fail, and what cannot be undone is not a step's business to undo.
type step struct {
	name string
	do   func(ctx context.Context) (note string, err error)
	undo func()
}

// Event is the progress of a start: Step has begun, or (Finished) is done.
type Event struct {
	Step     string
	Finished bool
	Took     time.Duration // with Finished
	Note     string
}

// StepError is a start that failed, with the step at which it did.
type StepError struct {
	Step string
	Err  error
}

func (e *StepError) Error() string { return fmt.Sprintf("%s: %v", e.Step, e.Err) }
func (e *StepError) Unwrap() error { return e.Err }

// run does the steps in their order. On an error it undoes the finished ones, last first, and returns a *StepError.
func run(ctx context.Context, clock func() time.Time, steps []step, report func(Event)) error {
	for i, s := range steps {
		err := ctx.Err()
		var note string
		begun := clock()
		if err == nil {
			report(Event{Step: s.name})
			note, err = s.do(ctx)
		}
		if err != nil {
			for j := i - 1; j >= 0; j-- {
				if steps[j].undo != nil {
					steps[j].undo()
				}
			}
			if inner, ok := errors.AsType[*StepError](err); ok {
				return inner // a step that knows better where it failed
			}
			return &StepError{Step: s.name, Err: err}
		}
		report(Event{Step: s.name, Finished: true, Took: clock().Sub(begun), Note: note})
	}
	return nil
}
