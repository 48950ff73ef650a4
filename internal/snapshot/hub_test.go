package snapshot

import (
	"context"
	"testing"
	"testing/synctest"

	"bromure.io/tui/internal/control/wire"
)

func TestWatchBeginsWithStateAndNewestWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHub(wire.Snapshot{Backend: "first"})
		step := make(chan struct{})
		var got []string
		go func() {
			defer close(step)
			for s := range h.Watch(t.Context()) {
				got = append(got, s.Backend)
				step <- struct{}{} // a slow reader
			}
		}()
		synctest.Wait()
		for _, b := range []string{"a", "b", "c"} {
			h.Publish(wire.Snapshot{Backend: b})
		}
		<-step
		synctest.Wait()
		if n := h.Watchers(); n != 1 {
			t.Errorf("%d watchers", n)
		}
		h.Close()
		for range step {
		}
		if len(got) != 2 || got[0] != "first" || got[1] != "c" {
			t.Errorf("saw %v, want the first and the newest", got)
		}
		if s := h.Current(); s.Seq != 3 {
			t.Errorf("sequence %d after three snapshots", s.Seq)
		}
		h.Publish(wire.Snapshot{Backend: "late"})
		if s := h.Current(); s.Backend != "c" {
			t.Error("published after Close")
		}
	})
}

func TestWatchEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHub(wire.Snapshot{})
		ctx, cancel := context.WithCancel(t.Context())
		ended := false
		go func() {
			for range h.Watch(ctx) {
			}
			ended = true
		}()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if !ended || h.Watchers() != 0 {
			t.Errorf("ended %v, %d watchers", ended, h.Watchers())
		}
	})
}
