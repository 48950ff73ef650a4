package cli

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"bromure.io/tui/internal/control/wire"
)

const (
	liveAfter  = 300 * time.Millisecond // until then nothing is shown on a terminal
	linesAfter = time.Second            // until then nothing is printed elsewhere
	liveEvery  = 100 * time.Millisecond
)

// progress shows what an operation does: one live line on a terminal, a line per step elsewhere, and
// nothing of an operation that is quick.
type progress struct {
	w     io.Writer
	width int // of the terminal; 0: it is none
	what  string
	now   func() time.Time

	mu     sync.Mutex
	begun  time.Time
	step   string
	note   string
	since  time.Time // of the step
	held   []string  // lines that wait for linesAfter
	shown  bool      // a live line stands there
	silent bool
	stop   chan struct{}
	done   sync.WaitGroup
}

// progress begins to show an operation on standard error; end must be called.
func (a *app) progress(what string) *progress {
	p := &progress{w: a.Err, what: line(what), now: time.Now, silent: a.quiet || a.json(), stop: make(chan struct{})}
	if isTerminal(a.Err) && a.Getenv("TERM") != "dumb" {
		p.width = 80
		if w, _, err := term.GetSize(int(a.Err.Fd())); err == nil && w > 0 {
			p.width = w
		}
	}
	p.begun = p.now()
	if !p.silent {
		p.done.Go(p.tick)
	}
	return p
}

func (p *progress) tick() {
	t := time.NewTicker(liveEvery)
	defer t.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-t.C:
			p.mu.Lock()
			p.refresh()
			p.mu.Unlock()
		}
	}
}

// refresh shows what is due. The lock is held.
func (p *progress) refresh() {
	elapsed := p.now().Sub(p.begun)
	if p.width == 0 {
		if elapsed >= linesAfter {
			for _, l := range p.held {
				fmt.Fprintln(p.w, l)
			}
			p.held = nil
		}
		return
	}
	if elapsed < liveAfter || p.step == "" {
		return
	}
	text := fmt.Sprintf("%s: %s  %s", p.what, p.step, took(p.now().Sub(p.since)))
	if p.note != "" {
		text += "  " + p.note
	}
	fmt.Fprintf(p.w, "\r%s\x1b[K", ansi.Truncate(text, p.width-1, "…"))
	p.shown = true
}

func (p *progress) report(r wire.Progress) {
	if p.silent {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Step != "" && !r.Finished && line(r.Step) != p.step {
		p.step, p.since = line(r.Step), p.now()
		if p.width == 0 {
			p.held = append(p.held, fmt.Sprintf("%s: %s (after %s)", p.what, p.step, took(p.since.Sub(p.begun))))
		}
	}
	p.note = line(r.Note)
	p.refresh()
}

// end removes the live line; a second call does nothing.
func (p *progress) end() {
	if p.silent {
		return
	}
	p.silent = true
	close(p.stop)
	p.done.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
