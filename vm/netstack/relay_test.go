package netstack

import (
	"errors"
	"net"
	"sync"

	"bromure.io/tui/vm/netstack/netstacktest"
)

// relayNIC is a card whose wire can be exchanged.
type relayNIC struct {
	mu     sync.Mutex
	nic    *netstacktest.NIC
	closed bool
}

func (r *relayNIC) plug(n *netstacktest.NIC) {
	r.mu.Lock()
	old := r.nic
	r.nic = n
	r.mu.Unlock()
	if old != nil {
		old.Close()
	}
}

func (r *relayNIC) current() (*netstacktest.NIC, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.nic, r.closed
}

func (r *relayNIC) Read(b []byte) (int, error) {
	for {
		nic, closed := r.current()
		if closed {
			return 0, net.ErrClosed
		}
		n, err := nic.Read(b)
		if !errors.Is(err, net.ErrClosed) {
			return n, err
		}
	}
}

func (r *relayNIC) Write(b []byte) (int, error) {
	nic, _ := r.current()
	return nic.Write(b)
}

func (r *relayNIC) Close() error {
	r.mu.Lock()
	r.closed = true
	nic := r.nic
	r.mu.Unlock()
	return nic.Close()
}
