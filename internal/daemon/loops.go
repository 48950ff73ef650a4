package daemon

import (
	"context"
	"sync"
	"time"

	"bromure.io/tui/vm"
)

// How often guests are asked how they are, and how often unused blocks are given back.
const (
	pollWatched = 2 * time.Second  // somebody looks
	pollAlone   = 30 * time.Second // nobody does
	trimEvery   = time.Hour
	askTimeout  = 5 * time.Second
)

// pollLoop reads the load of the running guests.
func (d *Daemon) pollLoop(ctx context.Context) {
	var last time.Time
	tick := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pollWatched):
		}
		now := time.Now()
		if jumped(tick, now) {
			d.log.Info("the clock jumped; set the guests'", "from", tick, "to", now)
			d.setClocks(ctx)
		}
		tick = now
		if d.hub.Watchers() == 0 && time.Since(last) < pollAlone {
			continue
		}
		last = time.Now()
		d.mu.Lock()
		machines := d.machines()
		d.mu.Unlock()
		var wg sync.WaitGroup
		for _, m := range machines {
			wg.Go(func() { m.poll(ctx) })
		}
		wg.Wait()
		if len(machines) > 0 {
			d.changed()
		}
	}
}

// maxJump is how far the wall clock may run away from the monotonic one between two looks.
const maxJump = time.Second

// jumped says whether the wall clock moved by more than time that passed: the host slept, or somebody set it.
// Guests sleep with their host and do not notice.
func jumped(before, after time.Time) bool {
	return jumpedBy(before.Round(0), after.Round(0), after.Sub(before)) // Round strips the monotonic reading
}

// jumpedBy is jumped with the two clocks apart: wall times without a monotonic reading, and what passed by the monotonic clock.
func jumpedBy(before, after time.Time, passed time.Duration) bool {
	return (after.Sub(before) - passed).Abs() > maxJump
}

// setClocks gives every guest that answers the host's time.
func (d *Daemon) setClocks(ctx context.Context) {
	d.mu.Lock()
	machines := d.machines()
	d.mu.Unlock()
	var wg sync.WaitGroup
	for _, m := range machines {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, askTimeout)
			defer cancel()
			if l := m.link.Load(); l != nil {
				_, err := l.SetClock(ctx, time.Now())
				m.logs.note("clock set after a jump of the host's, error %v", err)
			}
		})
	}
	wg.Wait()
}

// poll asks one guest. What it answers is its word; a guest that does not answer keeps its last values.
func (m *machine) poll(ctx context.Context) {
	l := m.link.Load()
	if l == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	stats, err := l.Stats(ctx)
	if err != nil {
		return
	}
	ports, err := l.Ports(ctx)
	if err != nil {
		return
	}
	consoles, err := l.Consoles(ctx)
	if err != nil {
		return
	}
	m.mu.Lock()
	m.stats, m.ports, m.consoles = &stats, ports, len(consoles)
	trim := time.Since(m.trimmed) > trimEvery
	if trim {
		m.trimmed = time.Now()
	}
	m.mu.Unlock()
	if trim {
		m.group.Go(func() { m.trim(m.life) })
	}
}

// trim gives the unused blocks of both disks back to the host.
func (m *machine) trim(ctx context.Context) {
	l := m.link.Load()
	if l == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	t, err := l.Trim(ctx)
	m.logs.note("trim: root %d bytes, home %d bytes, error %v", t.Root, t.Home, err)
}

// learnCapabilities finds out what the backend can do, so that the first start need not wait for it.
func (d *Daemon) learnCapabilities(ctx context.Context) {
	caps, err := d.backend.Capabilities(ctx)
	if err != nil {
		d.log.Warn("see what the backend can do", "error", err)
		return
	}
	d.setCapabilities(caps)
}

func (d *Daemon) setCapabilities(caps vm.Capabilities) {
	d.mu.Lock()
	d.caps = caps
	d.mu.Unlock()
	d.changed()
}

// idleLoop makes a daemon leave that has had no machine, no verb and no front for a while.
func (d *Daemon) idleLoop(ctx context.Context, fronts func() (since time.Time, idle bool)) {
	limit := d.opts.Idle
	if limit <= 0 {
		limit = DefaultIdle
	}
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(min(limit/4, 30*time.Second)):
		}
		if since, idle := fronts(); !idle || d.busy() {
			last = time.Now()
		} else if since.After(last) {
			last = since
		}
		if time.Since(last) >= limit {
			d.log.Info("nothing to do", "since", last)
			d.leaveSoon()
			return
		}
	}
}

func (d *Daemon) busy() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, e := range d.entries {
		if e.machine != nil || e.op != nil {
			return true
		}
	}
	return d.building > 0
}
