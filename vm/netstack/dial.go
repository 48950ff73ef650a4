package netstack

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"
)

// A SYN that a booting guest misses is sent again after a whole second (RFC 6298), which would be the largest part of a
// start. So Dial makes another attempt sooner, keeps the last few, and takes the first that succeeds; the pause
// grows, because under emulation a guest may need longer than the first ones.
const (
	firstRetry  = 120 * time.Millisecond
	lastRetry   = time.Second
	maxAttempts = 4 // at a time
)

// Dial connects to a port of the guest, from the gateway. It tries until ctx ends while the guest does not answer; a guest that
// refuses gives [syscall.ECONNREFUSED] at once.
func (s *Segment) Dial(ctx context.Context, port uint16) (net.Conn, error) {
	c, err := s.dial(ctx, port)
	if err != nil {
		return nil, fmt.Errorf("dial port %d of the guest: %w", port, err)
	}
	return c, nil
}

func (s *Segment) dial(ctx context.Context, port uint16) (*Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.ctx, cancel)()

	type result struct {
		conn *Conn
		err  error
	}
	results := make(chan result)
	attempt := func(one context.Context) {
		c, err := s.connect(one, port)
		if err != nil && one.Err() != nil {
			return // given up by us
		}
		select {
		case results <- result{c, err}:
		case <-ctx.Done(): // another one was faster, or the caller left
			if c != nil {
				_ = c.Reset()
			}
		}
	}

	var running []context.CancelFunc
	pause := firstRetry
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case r := <-results:
			return r.conn, r.err
		case <-ctx.Done():
			if s.ctx.Err() != nil {
				return nil, ErrClosed
			}
			return nil, ctx.Err()
		case <-timer.C:
			if len(running) == maxAttempts {
				running[0]()
				running = running[1:]
			}
			one, giveUp := context.WithCancel(ctx)
			if !s.start(func() { attempt(one) }) {
				giveUp()
				return nil, ErrClosed
			}
			running = append(running, giveUp) // all end with ctx
			timer.Reset(pause)
			pause = min(pause*3/2, lastRetry)
		}
	}
}

// connect makes one attempt.
func (s *Segment) connect(ctx context.Context, port uint16) (*Conn, error) {
	queue := new(waiter.Queue)
	ep, terr := s.stack.NewEndpoint(tcp.ProtocolNumber, ipv4.ProtocolNumber, queue)
	if terr != nil {
		return nil, netError(terr)
	}
	entry, ready := waiter.NewChannelEntry(waiter.WritableEvents)
	queue.EventRegister(&entry)
	defer queue.EventUnregister(&entry)
	local := tcpip.FullAddress{NIC: nicID, Addr: address(s.gateway)}
	if terr := ep.Bind(local); terr != nil {
		ep.Close()
		return nil, netError(terr)
	}
	terr = ep.Connect(tcpip.FullAddress{NIC: nicID, Addr: address(s.guest), Port: port})
	if _, started := terr.(*tcpip.ErrConnectStarted); started {
		select {
		case <-ready:
			terr = ep.LastError()
		case <-ctx.Done():
			ep.Close()
			return nil, ctx.Err()
		}
	}
	if terr != nil {
		ep.Close()
		return nil, netError(terr)
	}
	return s.newConn(queue, ep, false)
}

// backlog is how many connections may wait to be accepted on a gateway port.
const backlog = 64

// Listen opens a port on the gateway's address. Only this segment's guest can reach it, so who connects is
// known by the segment. Connections count against [Limits].Connections.
func (s *Segment) Listen(port uint16) (net.Listener, error) {
	l, err := s.listen(port)
	if err != nil {
		return nil, fmt.Errorf("listen on gateway port %d: %w", port, err)
	}
	return l, nil
}

func (s *Segment) listen(port uint16) (*listener, error) {
	if s.ctx.Err() != nil {
		return nil, ErrClosed
	}
	if port == portDNS || port == 0 {
		return nil, syscall.EADDRINUSE
	}
	queue := new(waiter.Queue)
	ep, terr := s.stack.NewEndpoint(tcp.ProtocolNumber, ipv4.ProtocolNumber, queue)
	if terr != nil {
		return nil, netError(terr)
	}
	ep.SocketOptions().SetReuseAddress(true) // connections of an earlier listener may still be open
	if terr := ep.Bind(tcpip.FullAddress{NIC: nicID, Addr: address(s.gateway), Port: port}); terr != nil {
		ep.Close()
		return nil, netError(terr)
	}
	if terr := ep.Listen(backlog); terr != nil {
		ep.Close()
		return nil, netError(terr)
	}
	l := &listener{segment: s, ep: ep, queue: queue, port: port, closed: make(chan struct{})}
	l.release = context.AfterFunc(s.ctx, func() { _ = l.Close() })
	return l, nil
}

// listener is an open gateway port.
type listener struct {
	segment *Segment
	ep      tcpip.Endpoint
	queue   *waiter.Queue
	port    uint16
	once    sync.Once
	closed  chan struct{}
	release func() bool
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	entry, ready := waiter.NewChannelEntry(waiter.ReadableEvents)
	l.queue.EventRegister(&entry)
	defer l.queue.EventUnregister(&entry)
	for {
		select {
		case <-l.closed:
			return nil, l.failed(net.ErrClosed)
		default:
		}
		ep, queue, terr := l.ep.Accept(nil)
		if _, none := terr.(*tcpip.ErrWouldBlock); none {
			select {
			case <-ready:
			case <-l.closed:
			}
			continue
		}
		s := l.segment
		if terr != nil {
			if s.ctx.Err() != nil {
				return nil, l.failed(net.ErrClosed)
			}
			return nil, l.failed(netError(terr))
		}
		s.mu.Lock()
		busy := s.busyLocked()
		s.mu.Unlock()
		if busy != "" {
			ep.Abort()
			s.refuse(Refusal{Proto: TCP, Addr: s.gateway, Port: l.port, Rule: RuleBusy, Reason: busy})
			continue
		}
		c, err := s.newConn(queue, ep, true)
		if err != nil {
			return nil, l.failed(err)
		}
		return c, nil
	}
}

func (l *listener) failed(err error) error {
	return &net.OpError{Op: "accept", Net: "tcp", Addr: l.Addr(), Err: err}
}

// Close implements [net.Listener].
func (l *listener) Close() error {
	err := net.ErrClosed
	l.once.Do(func() {
		err = nil
		close(l.closed)
		l.release()
		l.ep.Close()
	})
	return err
}

// Addr implements [net.Listener].
func (l *listener) Addr() net.Addr {
	return &net.TCPAddr{IP: l.segment.gateway.AsSlice(), Port: int(l.port)}
}
