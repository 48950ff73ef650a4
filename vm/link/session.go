package link

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"golang.org/x/crypto/ssh"

	"bromure.io/tui/vm/guest"
)

// StartError is a program that the guest could not start.
type StartError struct {
	Code   int    // guest.CannotRun or guest.NotFound
	Reason string // the guest's word, cleaned
}

func (e *StartError) Error() string { return e.Reason }

// ErrClosed: the session ended before its program did: it was closed, or the guest left a console.
var ErrClosed = errors.New("the session was closed")

// ErrInputClosed is returned when standard input is written to that the program has closed.
var ErrInputClosed = errors.New("the program reads no more input")

// Session is a program or a console in the guest. Its streams are read and written by the caller; output that nobody reads
// stops the program. With a terminal everything is in Stdout.
type Session struct {
	Stdin  io.WriteCloser // Close is the end of input; the output goes on
	Stdout io.Reader
	Stderr io.Reader

	link *Link
	ch   channel

	stdinClosed chan struct{} // by the program
	eow         sync.Once

	closing atomic.Bool // by us

	done  chan struct{} // closed when exit and err are set
	exit  guest.Exit
	err   error
	ended chan struct{} // closed when the guest has closed the channel
}

// Exec starts a program. It returns as soon as the guest has the request; whether the program could be started is
// known at [Session.Wait], which returns a [*StartError] if not. When ctx is done the session is closed.
func (l *Link) Exec(ctx context.Context, e guest.Exec) (*Session, error) {
	if err := e.Check(); err != nil {
		return nil, err
	}
	return l.session(ctx, guest.ExecRequestName, e)
}

// Console attaches to a console, which the guest makes when it has none of that name. Closing the session
// detaches; the console lives on. When ctx is done the session is closed.
func (l *Link) Console(ctx context.Context, c guest.Console) (*Session, error) {
	if c.Name == "" {
		c.Name = guest.DefaultConsole
	}
	if err := c.Check(); err != nil {
		return nil, err
	}
	return l.session(ctx, guest.ConsoleRequestName, c)
}

func (l *Link) session(ctx context.Context, request string, what any) (*Session, error) {
	payload, err := encode(what)
	if err != nil {
		return nil, fmt.Errorf("start a program in the guest: %w", err)
	}
	ch, err := l.open(ctx, "session", nil)
	if err != nil {
		return nil, fmt.Errorf("start a program in the guest: %w", err)
	}
	s := &Session{
		Stdout: ch, Stderr: ch.Stderr(),
		link: l, ch: ch,
		stdinClosed: make(chan struct{}), done: make(chan struct{}), ended: make(chan struct{}),
	}
	s.Stdin = stdin{s}
	go s.watch()
	// No answer is asked for: what the program prints, or why it could not be started, is one.
	if _, err := ch.SendRequest(request, false, payload); err != nil {
		_ = s.Close()
		return nil, s.explain("start a program in the guest", err)
	}
	go func() {
		select {
		case <-ctx.Done():
			s.Close()
		case <-s.done:
		}
		l.expect(s.ended, "has not closed a session")
	}()
	return s, nil
}

func encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(b) > guest.MaxRequest {
		return nil, fmt.Errorf("the request has %d bytes: the limit is %d", len(b), guest.MaxRequest)
	}
	return b, nil
}

// watch reads what the guest says of the session until the channel is closed.
func (s *Session) watch() {
	defer close(s.ended)
	var reason string
	for r := range s.ch.reqs {
		switch r.Type {
		case "exit-status":
			if code, err := parseExitStatus(r.Payload); err == nil {
				s.finish(guest.Exit{Code: code}, reason)
			}
		case "exit-signal":
			if exit, err := parseExitSignal(r.Payload); err == nil {
				s.finish(exit, reason)
			}
		case guest.ExitErrorName:
			reason = guest.Clean(string(r.Payload), maxText)
		case "eow@openssh.com":
			s.eow.Do(func() { close(s.stdinClosed) })
		}
		if r.WantReply {
			_ = r.Reply(false, nil)
		}
	}
	s.end(guest.Exit{Code: -1}, s.unexpected(reason))
	_ = s.ch.Close()
}

// unexpected is why the session is over without an exit.
func (s *Session) unexpected(reason string) error {
	select {
	case <-s.done:
		return s.err // it was expected
	default:
	}
	if reason != "" {
		return errors.New(reason)
	}
	if s.closing.Load() {
		return cmp.Or(s.link.Err(), ErrClosed)
	}
	return cmp.Or(s.link.lost(), ErrClosed)
}

// finish takes the guest's word for how the program ended.
func (s *Session) finish(exit guest.Exit, reason string) {
	if reason == "" {
		s.end(exit, nil)
		return
	}
	s.end(exit, &StartError{Code: exit.Code, Reason: reason})
}

// end sets the result; the first one counts.
func (s *Session) end(exit guest.Exit, err error) {
	s.link.mu.Lock()
	defer s.link.mu.Unlock()
	select {
	case <-s.done:
	default:
		s.exit, s.err = exit, err
		close(s.done)
	}
}

// Wait returns how the program ended. The error is a [*StartError] when it never ran, [ErrLost] when the
// link is gone, [ErrClosed] when the session was closed before. Output that arrived can still be read.
func (s *Session) Wait() (guest.Exit, error) {
	<-s.done
	return s.exit, s.err
}

// Done is closed when Wait would return.
func (s *Session) Done() <-chan struct{} { return s.done }

// Close ends the session. A program that still runs gets SIGHUP, and SIGKILL if that does not end it; a console is detached
// from. Reads of its output end at the latest when the link gives the guest up.
func (s *Session) Close() error {
	s.closing.Store(true)
	if s.ch.Close() == nil {
		go s.link.expect(s.ended, "has not closed a session")
	}
	return nil
}

// Resize tells a terminal's new size.
func (s *Session) Resize(size guest.Size) error {
	size = size.Clamp()
	_, err := s.ch.SendRequest("window-change", false, ssh.Marshal(struct{ Cols, Rows, Width, Height uint32 }{
		uint32(size.Cols), uint32(size.Rows), 0, 0,
	}))
	return s.explain("resize the terminal", err)
}

// Signal sends a signal, by its name without "SIG", to the program's process group, or on a
// terminal to the one in the foreground.
func (s *Session) Signal(name string) error {
	if _, ok := guest.SignalNumber(name); !ok {
		return fmt.Errorf("signal the program: no signal is called %q", name)
	}
	_, err := s.ch.SendRequest("signal", false, ssh.Marshal(struct{ Name string }{name}))
	return s.explain("signal the program", err)
}

// explain makes the error of something done to a session that is over.
func (s *Session) explain(act string, err error) error {
	if err == nil {
		return nil
	}
	<-s.done // the library says EOF before that is known
	if s.err != nil && errors.Is(s.err, ErrLost) {
		return fmt.Errorf("%s: %w", act, s.err)
	}
	return fmt.Errorf("%s: %w", act, ErrClosed)
}

// stdin is a session's standard input.
type stdin struct{ s *Session }

func (w stdin) Write(b []byte) (int, error) {
	select {
	case <-w.s.stdinClosed:
		return 0, ErrInputClosed
	default:
	}
	n, err := w.s.ch.Write(b)
	return n, w.s.explain("write to the program", err)
}

func (w stdin) Close() error { return w.s.explain("end the input", w.s.ch.CloseWrite()) }
