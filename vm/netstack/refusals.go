package netstack

import (
	"net/netip"
	"sync"
	"time"
)

// Refusal is something that the guest tried and was refused.
type Refusal struct {
	Time   time.Time  `json:"time"`
	Proto  Proto      `json:"proto"`
	Name   string     `json:"name,omitempty"` // as looked up; empty when the address has no name
	Addr   netip.Addr `json:"addr,omitzero"`  // invalid for a refused DNS question
	Port   uint16     `json:"port,omitempty"` // 0 where the protocol has none
	Rule   string     `json:"rule"`           // for programs: one of the Rule constants or the policy's own
	Reason string     `json:"reason"`         // for people
	Count  int        `json:"count"`          // how often since it was last reported; at least 1
}

// Proto is the protocol of something refused.
type Proto string

// The protocols of a [Refusal].
const (
	TCP   Proto = "tcp"
	UDP   Proto = "udp"
	ICMP  Proto = "icmp"
	DNS   Proto = "dns"
	Other Proto = "other" // another protocol on IP
)

// Rules of the segment itself, which no policy can lift. A policy has its own words.
const (
	RuleClosed   = "closed"   // there is no policy
	RulePolicy   = "policy"   // a policy that gave no rule
	RuleSegment  = "segment"  // an address on the segment with nothing behind it
	RuleUnknown  = "unknown"  // a synthetic address that no name has
	RuleReserved = "reserved" // loopback and other addresses that no host on a network has
	RuleUDP      = "udp"      // UDP does not leave a workspace; DNS is answered here
	RulePing     = "ping"     // ICMP does not leave a workspace
	RuleProtocol = "protocol" // nor does any protocol but TCP
	RuleResolver = "resolver" // a public resolver that would take names past us
	RuleNames    = "names"    // no synthetic address is left for another name
	RuleBusy     = "busy"     // one of the Limits is reached
	RuleMany     = "many"     // the sum of refusals that came too fast to be listed
)

const (
	// summaryEvery is how long repeats are counted before they are reported as one.
	summaryEvery = 10 * time.Second

	// maxDistinct is how many different refusals are listed in that time; the others are counted
	// together. So at most 12.9 reports a second reach the log, about 3 kB.
	maxDistinct = 128
)

// refusalKey is what makes two refusals the same one.
type refusalKey struct {
	proto Proto
	name  string
	addr  netip.Addr
	port  uint16
	rule  string
}

// recorder passes refusals on at a bounded rate: the first of a kind at once, its repeats as one
// count when the window ends. Its memory is bounded by maxDistinct.
type recorder struct {
	report func(Refusal)
	queue  chan Refusal // first ones; has room for everything that one window may list
	quit   chan struct{}
	done   chan struct{}

	mu     sync.Mutex
	known  map[refusalKey]*Refusal // Count is what is not reported yet
	rest   Refusal                 // the sum of what found no room
	closed bool
}

func newRecorder(report func(Refusal)) *recorder {
	r := &recorder{
		report: report,
		queue:  make(chan Refusal, maxDistinct),
		quit:   make(chan struct{}),
		done:   make(chan struct{}),
		known:  make(map[refusalKey]*Refusal),
	}
	if report == nil {
		close(r.done)
		return r
	}
	go r.run()
	return r
}

// add never blocks.
func (r *recorder) add(f Refusal) {
	if r.report == nil {
		return
	}
	f.Count = 1
	key := refusalKey{f.Proto, f.Name, f.Addr, f.Port, f.Rule}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	if k := r.known[key]; k != nil {
		k.Count++
		k.Time, k.Reason = f.Time, f.Reason
		return
	}
	if len(r.known) < maxDistinct {
		k := f
		r.known[key] = &k
		select {
		case r.queue <- f:
			k.Count = 0
		default: // a slow receiver: it comes with the summary
		}
		return
	}
	if r.rest.Count == 0 {
		r.rest = Refusal{Proto: f.Proto, Rule: RuleMany, Reason: "more refusals than are listed one by one"}
	}
	r.rest.Time = f.Time
	r.rest.Count++
}

func (r *recorder) run() {
	defer close(r.done)
	tick := time.NewTicker(summaryEvery)
	defer tick.Stop()
	for {
		select {
		case f := <-r.queue:
			r.report(f)
		case <-tick.C:
			r.summarise()
		case <-r.quit:
			for len(r.queue) > 0 {
				r.report(<-r.queue)
			}
			r.summarise()
			return
		}
	}
}

// summarise reports the repeats, and forgets what was not repeated.
func (r *recorder) summarise() {
	var out []Refusal
	r.mu.Lock()
	for key, k := range r.known {
		if k.Count == 0 {
			delete(r.known, key)
			continue
		}
		out = append(out, *k)
		k.Count = 0
	}
	if r.rest.Count > 0 {
		out = append(out, r.rest)
		r.rest = Refusal{}
	}
	r.mu.Unlock()
	for _, f := range out {
		r.report(f)
	}
}

// close reports what is still to be reported, and returns when report is called no more.
func (r *recorder) close() {
	r.mu.Lock()
	first := !r.closed
	r.closed = true
	r.mu.Unlock()
	if first {
		close(r.quit)
	}
	<-r.done
}
