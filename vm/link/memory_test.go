package link

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"bromure.io/tui/vm/guest"
)

// buffer is one direction of an in-memory connection. It has room for everything, as both sides of an SSH
// handshake write before they read.
type buffer struct {
	mu     sync.Mutex
	cond   sync.Cond
	b      []byte
	closed bool
}

func newBuffer() *buffer {
	b := &buffer{}
	b.cond.L = &b.mu
	return b
}

func (b *buffer) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.b) == 0 {
		if b.closed {
			return 0, io.EOF
		}
		b.cond.Wait()
	}
	n := copy(p, b.b)
	b.b = b.b[n:]
	return n, nil
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, io.ErrClosedPipe
	}
	b.b = append(b.b, p...)
	b.cond.Broadcast()
	return len(p), nil
}

func (b *buffer) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.cond.Broadcast()
}

// memConn is one end of an in-memory connection, which works within synctest.
type memConn struct {
	r, w *buffer
}

func memPipe() (net.Conn, net.Conn) {
	a, b := newBuffer(), newBuffer()
	return memConn{a, b}, memConn{b, a}
}

func (c memConn) Read(p []byte) (int, error)  { return c.r.Read(p) }
func (c memConn) Write(p []byte) (int, error) { return c.w.Write(p) }
func (c memConn) Close() error                { c.r.close(); c.w.close(); return nil }

func (memConn) LocalAddr() net.Addr              { return textAddr("mem") }
func (memConn) RemoteAddr() net.Addr             { return textAddr("mem") }
func (memConn) SetDeadline(time.Time) error      { return nil }
func (memConn) SetReadDeadline(time.Time) error  { return nil }
func (memConn) SetWriteDeadline(time.Time) error { return nil }

// evilGuest is what a test makes of a guest after an honest handshake.
type evilGuest func(conn *ssh.ServerConn, chans <-chan ssh.NewChannel, reqs <-chan *ssh.Request)

// meet connects a link to an evil guest with these keys; other keys may be given to the guest.
func meet(t *testing.T, keys, theirs Keys, evil evilGuest) (*Link, error) {
	t.Helper()
	ours, guests := memPipe()
	cfg := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if string(key.Marshal()) != string(theirs.pair().client.PublicKey().Marshal()) {
			return nil, errors.New("no")
		}
		return nil, nil
	}}
	cfg.AddHostKey(theirs.pair().host)
	go func() {
		defer guests.Close()
		conn, chans, reqs, err := ssh.NewServerConn(guests, cfg)
		if err != nil {
			return
		}
		evil(conn, chans, reqs)
	}()
	return Dial(t.Context(), func(context.Context) (net.Conn, error) { return ours, nil }, keys, guest.User)
}

func mustKeys(t testing.TB) Keys {
	t.Helper()
	k, err := NewKeys()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// within runs f with a link to an evil guest, in made-up time.
func within(t *testing.T, evil evilGuest, f func(t *testing.T, l *Link)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		keys := mustKeys(t)
		l, err := meet(t, keys, keys, evil)
		if err != nil {
			t.Fatal(err)
		}
		f(t, l)
		l.Close()
		if !errors.Is(l.Err(), ErrLost) {
			t.Errorf("after close: %v", l.Err())
		}
	})
}

func quiet(reqs <-chan *ssh.Request) { go ssh.DiscardRequests(reqs) }
