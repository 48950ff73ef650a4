// Package netstacktest has a guest for tests of segments that need no machine: a network card in memory
// (pipe.go) and a second TCP/IP stack behind it (guest.go).
package netstacktest

import (
	"io"
	"net"
	"sync"
)

// pipeQueue is how many frames wait in each direction before a Write blocks.
const pipeQueue = 256

// NIC is one end of a wire in memory: one frame for each Read and each Write, like a pair of datagram sockets.
// It implements [io.ReadWriteCloser].
type NIC struct {
	in, out chan *[]byte
	pool    *sync.Pool
	closed  chan struct{}
	once    *sync.Once
	peer    *NIC
}

// Pipe makes a wire and returns its two ends.
func Pipe() (host, guest *NIC) {
	pool := &sync.Pool{New: func() any { return new([]byte) }}
	a, b := make(chan *[]byte, pipeQueue), make(chan *[]byte, pipeQueue)
	host = &NIC{in: a, out: b, pool: pool, closed: make(chan struct{}), once: new(sync.Once)}
	guest = &NIC{in: b, out: a, pool: pool, closed: make(chan struct{}), once: new(sync.Once)}
	host.peer, guest.peer = guest, host
	return host, guest
}

// Read implements [io.Reader]. A frame that is longer than b is cut.
func (n *NIC) Read(b []byte) (int, error) {
	select {
	case <-n.closed:
		return 0, net.ErrClosed
	default:
	}
	select {
	case f := <-n.in:
		c := copy(b, *f)
		n.pool.Put(f)
		return c, nil
	case <-n.closed:
		return 0, net.ErrClosed
	}
}

// Write implements [io.Writer]. What is written to an end that is closed is lost.
func (n *NIC) Write(b []byte) (int, error) {
	select {
	case <-n.closed:
		return 0, net.ErrClosed
	default:
	}
	f := n.pool.Get().(*[]byte)
	*f = append((*f)[:0], b...)
	select {
	case n.out <- f:
	case <-n.peer.closed:
	case <-n.closed:
		return 0, net.ErrClosed
	}
	return len(b), nil
}

// Close implements [io.Closer] and unblocks Read and Write of this end.
func (n *NIC) Close() error {
	n.once.Do(func() { close(n.closed) })
	return nil
}

var _ io.ReadWriteCloser = (*NIC)(nil)
