// Package snapshot keeps the state that fronts see and hands it to whoever watches: always whole, the newest wins.
package snapshot

import (
	"context"
	"iter"
	"sync"

	"bromure.io/tui/internal/control/wire"
)

// Hub holds the newest snapshot. Its zero value is not ready; use [NewHub].
type Hub struct {
	mu      sync.Mutex
	current wire.Snapshot
	changed chan struct{} // closed and replaced at every Publish
	closed  bool
	readers int
}

// NewHub makes a hub whose first snapshot is first.
func NewHub(first wire.Snapshot) *Hub {
	return &Hub{current: first, changed: make(chan struct{})}
}

// Publish replaces the snapshot and wakes every watcher. Seq is set here.
func (h *Hub) Publish(s wire.Snapshot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	s.Seq = h.current.Seq + 1
	h.current = s
	close(h.changed)
	h.changed = make(chan struct{})
}

// Current is the newest snapshot.
func (h *Hub) Current() wire.Snapshot {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.current
}

// Watchers is how many Watch loops are under way.
func (h *Hub) Watchers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.readers
}

// Watch yields the current snapshot and then each newer one. A slow reader skips those in
// between. It ends with ctx, or after [Hub.Close] once the last snapshot was read.
func (h *Hub) Watch(ctx context.Context) iter.Seq[wire.Snapshot] {
	return func(yield func(wire.Snapshot) bool) {
		h.mu.Lock()
		h.readers++
		h.mu.Unlock()
		defer func() {
			h.mu.Lock()
			h.readers--
			h.mu.Unlock()
		}()
		for first, seen := true, uint64(0); ; first = false {
			h.mu.Lock()
			s, changed, closed := h.current, h.changed, h.closed
			h.mu.Unlock()
			if (first || s.Seq != seen) && !yield(s) {
				return
			}
			if seen = s.Seq; closed {
				return
			}
			select {
			case <-ctx.Done():
				return
			case <-changed:
			}
		}
	}
}

// Close ends every watch. The last snapshot stays readable.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.closed = true
		close(h.changed)
	}
}
