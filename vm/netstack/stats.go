package netstack

import (
	"sync"
	"sync/atomic"
	"time"
)

// Stats counts what happened on a segment since it was made.
type Stats struct {
	Attached  bool   `json:"attached"`
	FramesIn  uint64 `json:"frames_in"` // from the guest
	FramesOut uint64 `json:"frames_out"`
	BytesIn   uint64 `json:"bytes_in"`
	BytesOut  uint64 `json:"bytes_out"`
	Lost      uint64 `json:"lost"` // frames to the guest that found no card or no room

	// Frames from the guest that were dropped.
	Spoofed   uint64 `json:"spoofed"` // from addresses that are not the guest's
	Malformed uint64 `json:"malformed"`
	Fragments uint64 `json:"fragments"`
	IPv6      uint64 `json:"ipv6"`
	Foreign   uint64 `json:"foreign"` // to nobody here, or of an unknown type

	Queries   uint64 `json:"queries"`   // DNS questions
	Refused   uint64 `json:"refused"`   // everything that Refused reports, each one
	Admitted  uint64 `json:"admitted"`  // connections that the handler got
	Abandoned uint64 `json:"abandoned"` // admitted, but the guest did not complete the handshake

	Open    int `json:"open"`    // connections of both directions
	Pending int `json:"pending"` // connections that are being decided or opened
	Names   int `json:"names"`   // names that have an address
}

// counters are the parts of Stats that are counted as they happen.
type counters struct {
	framesIn, framesOut, bytesIn, bytesOut, lost atomic.Uint64
	spoofed, malformed, fragments, ipv6, foreign atomic.Uint64
	queries, refused, admitted, abandoned        atomic.Uint64
}

// Stats reads the counters.
func (s *Segment) Stats() Stats {
	c := &s.stats
	st := Stats{
		Attached:  s.Attached(),
		FramesIn:  c.framesIn.Load(),
		FramesOut: c.framesOut.Load(),
		BytesIn:   c.bytesIn.Load(),
		BytesOut:  c.bytesOut.Load(),
		Lost:      c.lost.Load(),
		Spoofed:   c.spoofed.Load(),
		Malformed: c.malformed.Load(),
		Fragments: c.fragments.Load(),
		IPv6:      c.ipv6.Load(),
		Foreign:   c.foreign.Load(),
		Queries:   c.queries.Load(),
		Refused:   c.refused.Load(),
		Admitted:  c.admitted.Load(),
		Abandoned: c.abandoned.Load(),
		Names:     s.names.Len(),
	}
	s.mu.Lock()
	st.Open, st.Pending = len(s.conns), len(s.pending)
	s.mu.Unlock()
	return st
}

// bucket is a token bucket that says no when it is empty; nothing waits.
type bucket struct {
	perSecond, burst float64

	mu     sync.Mutex
	tokens float64
	last   time.Time
}

func newBucket(perSecond, burst float64) *bucket {
	return &bucket{perSecond: perSecond, burst: burst, tokens: burst, last: time.Now()}
}

func (b *bucket) take() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.tokens = min(b.burst, b.tokens+now.Sub(b.last).Seconds()*b.perSecond)
	b.last = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
