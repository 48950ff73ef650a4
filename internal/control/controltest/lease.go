package controltest

import (
	"context"

	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
)

// Lease is [control.Service.Lease].
func (f *Fake) Lease(_ context.Context, ref string) (func(gone bool), error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w, err := f.find(ref)
	if err != nil {
		return nil, err
	}
	if w.Throwaway == "" {
		return nil, problem.New(problem.Refused, "no throw-away workspace", "")
	}
	id := w.ID
	return func(gone bool) {
		f.mu.Lock()
		defer f.mu.Unlock()
		if w := f.spaces[id]; gone && w != nil && w.Throwaway == vm.Attached {
			w.halt()
			f.discard(w)
		}
	}, nil
}

// discard deletes a throw-away whose machine has stopped. The lock is held.
func (f *Fake) discard(w *space) {
	if w.Throwaway != "" && w.State != vm.Running && w.State != vm.Starting {
		delete(f.spaces, w.ID)
		f.change()
	}
}
