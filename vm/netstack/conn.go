package netstack

import (
	"fmt"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/waiter"
)

// Conn is a TCP connection with the guest. Besides [net.Conn] it has CloseRead, CloseWrite and Reset.
type Conn struct {
	tcp       *gonet.TCPConn
	ep        tcpip.Endpoint
	segment   *Segment
	fromGuest bool
	closed    atomic.Bool
}

var _ net.Conn = (*Conn)(nil)

// closeTimeout is how long what was written before a Close may stay unacknowledged. A guest that stops reading would
// otherwise keep a send buffer of ours for a quarter of an hour.
const closeTimeout = 30 * time.Second

// newConn enters a connection in the segment's books. On an error it is reset.
func (s *Segment) newConn(queue *waiter.Queue, ep tcpip.Endpoint, fromGuest bool) (*Conn, error) {
	c := &Conn{tcp: gonet.NewTCPConn(queue, ep), ep: ep, segment: s, fromGuest: fromGuest}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		ep.Abort()
		return nil, ErrClosed
	}
	s.conns[c] = struct{}{}
	if fromGuest {
		s.fromGuest++
	}
	s.mu.Unlock()
	return c, nil
}

// forget removes the connection from the books, once.
func (c *Conn) forget() bool {
	if c.closed.Swap(true) {
		return false
	}
	s := c.segment
	s.mu.Lock()
	delete(s.conns, c)
	if c.fromGuest {
		s.fromGuest--
	}
	s.mu.Unlock()
	return true
}

// Read implements [net.Conn].
func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.tcp.Read(b)
	return n, c.wrap("read", err)
}

// Write implements [net.Conn].
func (c *Conn) Write(b []byte) (int, error) {
	n, err := c.tcp.Write(b)
	return n, c.wrap("write", err)
}

// wrap makes every error after a Close the one that the net package has for it.
func (c *Conn) wrap(op string, err error) error {
	if err != nil && c.closed.Load() {
		return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: net.ErrClosed}
	}
	return err
}

// Close implements [net.Conn]: what was written is still sent, then the connection ends. Data that the
// guest sent and nobody read turns the end into a reset.
func (c *Conn) Close() error {
	if !c.forget() {
		return net.ErrClosed
	}
	timeout := tcpip.TCPUserTimeoutOption(closeTimeout)
	_ = c.ep.SetSockOpt(&timeout) // fails only for values out of range
	_ = c.tcp.SetDeadline(time.Unix(1, 0))
	return c.tcp.Close()
}

// Reset ends the connection at once with a RST; what was not sent is lost.
func (c *Conn) Reset() error {
	if !c.forget() {
		return net.ErrClosed
	}
	_ = c.tcp.SetDeadline(time.Unix(1, 0))
	c.ep.Abort()
	return nil
}

// CloseWrite ends our direction; the guest reads to the end of what was written.
func (c *Conn) CloseWrite() error { return c.tcp.CloseWrite() }

// CloseRead says that nothing more will be read.
func (c *Conn) CloseRead() error { return c.tcp.CloseRead() }

// LocalAddr implements [net.Conn]. For a connection from the guest it is the address that the guest connected to.
func (c *Conn) LocalAddr() net.Addr { return c.tcp.LocalAddr() }

// RemoteAddr implements [net.Conn].
func (c *Conn) RemoteAddr() net.Addr { return c.tcp.RemoteAddr() }

// SetDeadline implements [net.Conn].
func (c *Conn) SetDeadline(t time.Time) error { return c.tcp.SetDeadline(t) }

// SetReadDeadline implements [net.Conn].
func (c *Conn) SetReadDeadline(t time.Time) error { return c.tcp.SetReadDeadline(t) }

// SetWriteDeadline implements [net.Conn].
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.tcp.SetWriteDeadline(t) }

// netError gives the errors that callers branch on the form they have everywhere else.
func netError(err tcpip.Error) error {
	switch err.(type) {
	case nil:
		return nil
	case *tcpip.ErrConnectionRefused:
		return syscall.ECONNREFUSED
	case *tcpip.ErrConnectionReset:
		return syscall.ECONNRESET
	case *tcpip.ErrConnectionAborted, *tcpip.ErrAborted:
		return syscall.ECONNABORTED
	case *tcpip.ErrTimeout:
		return syscall.ETIMEDOUT
	case *tcpip.ErrPortInUse:
		return syscall.EADDRINUSE
	case *tcpip.ErrNoPortAvailable:
		return syscall.EADDRNOTAVAIL
	}
	return fmt.Errorf("%s", err)
}
