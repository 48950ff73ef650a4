package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"bromure.io/tui/internal/control"
)

// session connects the user's terminal or pipes with a stream, until the program in the guest has
// ended or the user leaves.
type session struct {
	a       *app
	stream  control.Stream
	tty     bool
	stdin   bool // pass standard input on
	console bool // leaving ends nothing in the guest
	keys    []byte

	term  *terminal
	modes modeTracker
}

var errDetached = errors.New("detached")

const (
	// keyPause is how long a key that may be the first of the detach keys is held back.
	keyPause = 500 * time.Millisecond
	// hangupGrace is how long a program may go on after SIGHUP: nobody sees it any more.
	hangupGrace = 5 * time.Second
	// drainGrace is how long a detaching front waits until the program has what was typed before.
	drainGrace = 2 * time.Second
	// forceAfter is how many signals mean that the user does not want to wait, as with Docker.
	forceAfter = 3
)

// run returns nil or an exitError when the program ended, a signalError after a signal, errDetached.
func (s *session) run(ctx context.Context) error {
	defer s.stream.Close()
	sigs, release := s.a.signals.take()
	defer release()
	if s.tty {
		t, err := makeRaw(s.a.In)
		if err != nil {
			return fmt.Errorf("make the terminal raw: %w", err)
		}
		s.term = t
		defer s.leaveTerminal()
		unwatch := s.watchWindow()
		defer unwatch()
	}
	detached := make(chan struct{})
	if s.stdin {
		s.guard(func() { s.passInput(detached) })
	} else {
		_ = s.stream.Stdin().Close()
	}
	type end struct {
		code int
		err  error
	}
	ended := make(chan end, 1)
	s.guard(func() {
		var wg sync.WaitGroup
		wg.Go(func() { s.passOutput(s.a.Out, s.stream.Stdout()) })
		wg.Go(func() { s.passOutput(s.a.Err, s.stream.Stderr()) })
		wg.Wait()
		code, err := s.stream.Wait()
		ended <- end{code, err}
	})

	var first os.Signal
	var force <-chan time.Time
	for count := 0; ; {
		select {
		case e := <-ended:
			switch {
			case first != nil:
				return signalError{first}
			case e.err != nil:
				return e.err
			case e.code != 0:
				return exitError(e.code)
			}
			return nil
		case <-detached:
			return errDetached
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-force:
			return signalError{first}
		case sig := <-sigs:
			if first == nil {
				first = sig
			}
			count++
			if s.console || count >= forceAfter {
				return signalError{first}
			}
			if s.stream.Signal(signalName(sig)) != nil {
				return signalError{first}
			}
			if sig == syscall.SIGHUP && force == nil {
				force = time.After(hangupGrace)
			}
		}
	}
}

// signalName is the name of RFC 4254, section 6.10.
func signalName(sig os.Signal) string {
	switch sig {
	case syscall.SIGINT:
		return "INT"
	case syscall.SIGHUP:
		return "HUP"
	}
	return "TERM"
}

func (s *session) guard(f func()) {
	if s.term == nil {
		go f()
		return
	}
	s.term.guard(f)
}

// passOutput writes on as long as it can. When it cannot, the output is read all the same, so that the
// program's end is seen.
func (s *session) passOutput(to io.Writer, from io.Reader) {
	buf := make([]byte, 64<<10)
	broken := false
	for {
		n, err := from.Read(buf)
		if n > 0 && !broken {
			if s.tty {
				s.modes.see(buf[:n])
			}
			_, werr := to.Write(buf[:n])
			broken = werr != nil
		}
		if err != nil {
			return
		}
	}
}

// passInput passes on what is typed or piped in, until its end. detached is closed when the detach keys came.
func (s *session) passInput(detached chan<- struct{}) {
	to := s.stream.Stdin()
	defer to.Close()
	if len(s.keys) == 0 {
		_, _ = io.Copy(to, onlyReader{s.a.In})
		return
	}
	typed := make(chan []byte)
	s.guard(func() {
		defer close(typed)
		for {
			buf := make([]byte, 4096)
			n, err := s.a.In.Read(buf)
			if n > 0 {
				typed <- buf[:n]
			}
			if err != nil {
				return
			}
		}
	})
	d := detacher{keys: s.keys}
	for {
		var pause <-chan time.Time
		if d.held > 0 {
			pause = time.After(keyPause)
		}
		select {
		case in, ok := <-typed:
			if !ok {
				_, _ = to.Write(d.flush())
				return
			}
			out, done := d.feed(in)
			if _, err := to.Write(out); err != nil {
				return
			}
			if done {
				// What was typed before the keys is for the program.
				if w, ok := to.(interface{ Drain(time.Duration) }); ok {
					w.Drain(drainGrace)
				}
				close(detached)
				return
			}
		case <-pause:
			if _, err := to.Write(d.flush()); err != nil {
				return
			}
		}
	}
}

// onlyReader hides WriteTo of a file, whose fast paths do not know our writers.
type onlyReader struct{ io.Reader }

// watchWindow passes on the terminal's size, and is raw again after the program was stopped and goes on.
func (s *session) watchWindow() (stop func()) {
	ch := make(chan os.Signal, 4)
	signal.Notify(ch, syscall.SIGWINCH, syscall.SIGCONT, syscall.SIGTSTP)
	quit := make(chan struct{})
	s.guard(func() {
		for {
			select {
			case <-quit:
				return
			case sig := <-ch:
				switch sig {
				case syscall.SIGTSTP: // from outside: ctrl-z is a key for the guest
					s.term.restore()
					_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
				case syscall.SIGCONT:
					s.term.restore()
					_ = s.term.raw()
				}
				_ = s.stream.Resize(s.a.windowSize())
			}
		}
	})
	// The size may have changed since it was sent with the request.
	ch <- syscall.SIGWINCH
	return func() { signal.Stop(ch); close(quit) }
}

// leaveTerminal gives the terminal back as it was: its modes, and those that the guest's programs
// switched on and did not switch off.
func (s *session) leaveTerminal() {
	if r := recover(); r != nil {
		s.term.restore()
		panic(r)
	}
	_, _ = io.WriteString(s.a.Out, s.modes.undo())
	s.term.restore()
}
