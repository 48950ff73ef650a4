package netstack

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"

	"gvisor.dev/gvisor/pkg/tcpip/header"

	"bromure.io/tui/vm/netstack/netstacktest"
)

// gatedNIC holds up what is written until it is opened.
type gatedNIC struct {
	io.ReadWriteCloser
	entered chan struct{} // has room for one
	open    chan struct{}
	written atomic.Int32
}

func (g *gatedNIC) Write(b []byte) (int, error) {
	select {
	case g.entered <- struct{}{}:
	default:
	}
	<-g.open
	g.written.Add(1)
	return len(b), nil
}

// What was queued when the segment is closed still leaves, for instance the resets of its connections.
func TestLastFramesLeave(t *testing.T) {
	for range 10 {
		s, err := New(Config{GuestMAC: testMAC})
		if err != nil {
			t.Fatal(err)
		}
		host, nic := netstacktest.Pipe()
		gate := &gatedNIC{ReadWriteCloser: host, entered: make(chan struct{}, 1), open: make(chan struct{})}
		if err := s.Attach(gate); err != nil {
			t.Fatal(err)
		}
		const n = 5
		for i := range n {
			if _, err := nic.Write(ethernetFrame("ff:ff:ff:ff:ff:ff", testMAC, typeARP, arpRequest(testMAC, "192.168.127.2", "192.168.127.1"))); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				<-gate.entered // the others wait behind it
			}
		}
		waitFor(t, func() bool { return s.Stats().FramesIn == n })
		closed := make(chan struct{})
		go func() {
			s.Close()
			close(closed)
		}()
		<-s.wire.last
		close(gate.open)
		<-closed
		if got := gate.written.Load(); got != n {
			t.Errorf("%d of %d frames left", got, n)
		}
		nic.Close()
	}
}

// A real listener on the host's loopback is never reached, even when everything is admitted: nothing here dials.
func TestHostIsUnreachable(t *testing.T) {
	canary, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	touched := make(chan string, 1)
	go func() {
		if c, err := canary.Accept(); err == nil {
			touched <- c.RemoteAddr().String()
			c.Close()
		}
		close(touched)
	}()
	port := uint16(canary.Addr().(*net.TCPAddr).Port)
	served := make(chan Request, 10)
	h := newHarness(t, Config{Policy: allowAll, Handler: func(c net.Conn, r Request) { served <- r }})
	raw := []string{"192.168.127.1", "192.168.127.254"}
	if addrs, err := net.InterfaceAddrs(); err == nil {
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
				raw = append(raw, n.IP.String())
			}
		}
	}
	for _, a := range raw {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		if c, err := h.guest.Dial(ctx, netip.AddrPortFrom(netip.MustParseAddr(a), port)); err == nil {
			io.ReadAll(c)
			c.Close()
			if r := <-served; r.Addr.String() != a { // our handler has it, not the host
				t.Errorf("%s: served %+v", a, r)
			}
		}
		cancel()
	}
	canary.Close()
	if who, ok := <-touched; ok {
		t.Fatalf("the host's loopback was reached from %s", who)
	}
}

func TestSegmentsDoNotSeeEachOther(t *testing.T) {
	a, b := newRawGuest(t, Config{}), newRawGuest(t, Config{})
	// a guest writes to the other's card, its address and everybody
	for _, f := range [][]byte{
		ethernetFrame(otherMAC, testMAC, typeIPv4, ipv4Packet("192.168.127.2", "192.168.127.2", protoICMP, echoRequest())),
		ethernetFrame("ff:ff:ff:ff:ff:ff", testMAC, typeARP, arpRequest(testMAC, "192.168.127.2", "192.168.127.2")),
		ethernetFrame("ff:ff:ff:ff:ff:ff", testMAC, typeIPv4, ipv4Packet("192.168.127.2", "192.168.127.255", protoUDP, udpPacket(9, []byte("hello")))),
	} {
		a.send(t, f)
	}
	a.ping(t)
	b.ping(t) // the first frame that b gets is its own
	if st := b.Stats(); st.FramesIn != 1 || st.FramesOut != 1 {
		t.Errorf("the other segment: %+v", st)
	}
	l, err := a.Listen(5000)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b.send(t, fromGuest("192.168.127.1", protoTCP, synPacket(1, 5000)))
	if h := header.TCP(checkIPv4(t, b.next(t), "192.168.127.1", protoTCP)); !h.Flags().Contains(header.TCPFlagRst) {
		t.Errorf("a private port of the other segment answers: %x", h)
	}
	name := a.mustAssign(t, "only-a.example")
	if got, ok := b.names.Reverse(netip.MustParseAddr(name)); ok {
		t.Errorf("the other segment knows %s", got)
	}
}

func TestConnectionsOutliveACard(t *testing.T) {
	h := newHarness(t, Config{})
	l, err := h.Listen(80)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); io.Copy(c, c) }()
		}
	}()
	// The guest's card is a relay that can be plugged into another wire, as QEMU's socket can be bound again.
	h.guest.Close()
	relay := &relayNIC{}
	plug := func() {
		host, nic := netstacktest.Pipe()
		relay.plug(nic)
		if err := h.Attach(host); err != nil {
			t.Fatal(err)
		}
	}
	plug()
	if h.guest, err = netstacktest.NewGuest(relay, testMAC); err != nil {
		t.Fatal(err)
	}
	c := h.mustDial(t, "192.168.127.1", 80)
	roundTrip(t, c, "over the first card")
	plug()
	roundTrip(t, c, "over the second card")
	roundTrip(t, h.mustDial(t, "192.168.127.1", 80), "a new one")
}

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
