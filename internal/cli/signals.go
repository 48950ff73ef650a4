package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// signals ends a context at the first SIGINT, SIGTERM or SIGHUP, unless a session has taken them
// over to pass them on to the guest.
type signals struct {
	ch     chan os.Signal
	cancel context.CancelCauseFunc
	done   chan struct{}

	mu    sync.Mutex
	taken chan os.Signal
}

func catchSignals(parent context.Context) (*signals, context.Context) {
	ctx, cancel := context.WithCancelCause(parent)
	s := &signals{ch: make(chan os.Signal, 8), cancel: cancel, done: make(chan struct{})}
	signal.Notify(s.ch, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go s.deliver()
	return s, ctx
}

func (s *signals) deliver() {
	defer close(s.done)
	for sig := range s.ch {
		s.mu.Lock()
		if s.taken != nil {
			select {
			case s.taken <- sig:
			default: // several wait already
			}
		} else {
			s.cancel(signalError{sig})
		}
		s.mu.Unlock()
	}
}

// take redirects the signals until release is called.
func (s *signals) take() (sigs <-chan os.Signal, release func()) {
	ch := make(chan os.Signal, 8)
	s.mu.Lock()
	s.taken = ch
	s.mu.Unlock()
	return ch, func() {
		s.mu.Lock()
		s.taken = nil
		s.mu.Unlock()
	}
}

func (s *signals) stop() {
	signal.Stop(s.ch)
	close(s.ch)
	<-s.done
	s.cancel(nil)
}
