// Package netstack is the private network of one workspace: a user-space TCP/IP stack at the
// host's end of the guest's only network card. It is closed by default. No frame ever reaches
// a network of the host's: a TCP connection that the [Policy] admits is ended here and given
// to the [Handler] with the name that the guest looked up; everything else is refused, and looks refused.
//
// Frames from the guest are hostile. gate.go decides about each of them and should be read first:
// only well-formed, unfragmented TCP from the guest's own addresses goes on to gVisor's stack; ARP,
// ICMP and UDP (DNS) are answered here without any state.
//
// The package knows nothing of workspaces, rules, proxies or upstream addresses, and resolves no name.
package netstack

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"

	"bromure.io/tui/vm/guest"
)

// Request is a TCP connection that the guest asks for.
type Request struct {
	Name    string     `json:"name"` // as the guest looked it up, lower case, no final dot; for a literal address its text form
	Addr    netip.Addr `json:"addr"` // what the guest connects to: synthetic, unless Literal
	Literal bool       `json:"literal,omitempty"`
	Port    uint16     `json:"port"`
}

func (r Request) String() string { return net.JoinHostPort(r.Name, fmt.Sprint(r.Port)) }

// Verdict is the answer to a [Request]. The zero value refuses.
type Verdict struct {
	Allow  bool
	Rule   string // which rule decided, for programs
	Reason string // for people
}

// Policy decides before a SYN is answered. It may take its time (a question to the user): the guest
// sees a connection that is slow to open. The context ends with the segment.
type Policy interface {
	Admit(context.Context, Request) Verdict
}

// PolicyFunc is a function that is a [Policy].
type PolicyFunc func(context.Context, Request) Verdict

// Admit calls f.
func (f PolicyFunc) Admit(ctx context.Context, r Request) Verdict { return f(ctx, r) }

// Handler serves one admitted connection, on its own goroutine. The connection is closed when it returns. conn
// is a [*Conn]: it can be half-closed and reset.
type Handler func(conn net.Conn, r Request)

// Config is what a segment is made of. Only GuestMAC is required.
type Config struct {
	GuestMAC string // the only source address that frames may have

	Policy  Policy  // nil refuses everything
	Handler Handler // required with a Policy
	Names   *Names  // nil: a table of this segment's own, which is lost with it

	// Refused is told of everything that the guest was refused, from one goroutine; it may be slow.
	// What repeats within a few seconds is summed up in one report (see [Refusal].Count), so the rate is
	// bounded whatever the guest does.
	Refused func(Refusal)

	MTU    int          // of the IP layer; 0 means guest.MTU
	Limits Limits       // zero fields mean the defaults
	Log    *slog.Logger // nil: no log
}

// Limits bounds what one guest can make the host hold. A guest that reaches one slows only itself.
type Limits struct {
	Pending     int // connections that are being decided or opened
	Connections int // admitted connections that are open, and those to gateway ports
	Queue       int // bytes that wait for the network card
}

// Defaults of [Limits].
const (
	DefaultPending     = 256
	DefaultConnections = 1024
	DefaultQueue       = 16 << 20
)

// ErrClosed is returned by the methods of a closed segment.
var ErrClosed = errors.New("segment is closed")

// Segment is the network of one workspace.
type Segment struct {
	mtu       int
	gateway   netip.Addr
	guest     netip.Addr
	subnet    netip.Prefix
	broadcast netip.Addr
	eth       ethernet

	policy  Policy
	handler Handler
	names   *Names
	limits  Limits
	log     *slog.Logger

	ctx    context.Context // ends with the segment
	cancel context.CancelFunc
	work   sync.WaitGroup // every goroutine of ours

	stack     *stack.Stack
	link      *link
	forwarder *tcp.Forwarder
	refusals  *recorder
	icmpRate  *bucket
	stats     counters

	attach sync.Mutex // held while a card is exchanged; taken before mu
	wire   *wire      // the last card that was attached

	mu        sync.Mutex
	closed    bool
	pending   map[stack.TransportEndpointID]struct{} // SYNs that are being decided
	conns     map[*Conn]struct{}
	fromGuest int // of conns
}

const nicID tcpip.NICID = 1

// New makes a segment without a network card; see [Segment.Attach].
func New(cfg Config) (*Segment, error) {
	if cfg.Policy != nil && cfg.Handler == nil {
		return nil, errors.New("make segment: a policy without a handler")
	}
	mac, err := net.ParseMAC(cfg.GuestMAC)
	if err != nil || len(mac) != 6 || mac[0]&1 != 0 {
		return nil, fmt.Errorf("make segment: not the MAC address of a card: %q", cfg.GuestMAC)
	}
	mtu := cfg.MTU
	if mtu == 0 {
		mtu = guest.MTU
	}
	// 576: what every IPv4 host must accept (RFC 791). The upper bound keeps a frame in one pooled buffer.
	if mtu < 576 || mtu > maxFrame-header.EthernetMinimumSize {
		return nil, fmt.Errorf("make segment: an MTU of %d", mtu)
	}
	s := &Segment{
		mtu:     mtu,
		gateway: netip.MustParseAddr(guest.GatewayAddress),
		guest:   netip.MustParseAddr(guest.GuestAddress),
		policy:  cfg.Policy,
		handler: cfg.Handler,
		names:   cfg.Names,
		limits:  cfg.Limits.withDefaults(),
		log:     cfg.Log,
		pending: make(map[stack.TransportEndpointID]struct{}),
		conns:   make(map[*Conn]struct{}),
	}
	s.subnet = netip.PrefixFrom(s.gateway, guest.PrefixLength).Masked()
	s.broadcast = lastAddr(s.subnet)
	s.eth.guest = [6]byte(mac)
	gw, err := net.ParseMAC(guest.GatewayMAC)
	if err != nil {
		return nil, fmt.Errorf("make segment: %w", err)
	}
	s.eth.gateway = [6]byte(gw)
	if s.names == nil {
		s.names = NewNames()
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.icmpRate = newBucket(icmpPerSecond, icmpBurst)
	s.link = newLink(s.eth, mtu, s.limits.Queue, &s.stats)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.refusals = newRecorder(cfg.Refused)
	if err := s.startStack(); err != nil {
		s.cancel()
		s.refusals.close()
		return nil, fmt.Errorf("make segment: %w", err)
	}
	return s, nil
}

func (l Limits) withDefaults() Limits {
	if l.Pending <= 0 {
		l.Pending = DefaultPending
	}
	if l.Connections <= 0 {
		l.Connections = DefaultConnections
	}
	if l.Queue <= 0 {
		l.Queue = DefaultQueue
	}
	return l
}

// lastAddr is the broadcast address of an IPv4 network.
func lastAddr(p netip.Prefix) netip.Addr {
	a := p.Addr().As4()
	n := binary.BigEndian.Uint32(a[:]) | ^uint32(0)>>p.Bits()
	binary.BigEndian.PutUint32(a[:], n)
	return netip.AddrFrom4(a)
}

// startStack makes gVisor's stack: IPv4 and TCP only. It takes every destination address for its
// own (promiscuous) and answers from it (spoofing), so that each connection ends here.
func (s *Segment) startStack() error {
	s.stack = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol},
	})
	if err := s.setUpStack(); err != nil {
		s.stack.Destroy()
		return err
	}
	return nil
}

func (s *Segment) setUpStack() error {
	if err := s.stack.CreateNIC(nicID, s.link); err != nil {
		return fmt.Errorf("create interface: %s", err)
	}
	address := tcpip.ProtocolAddress{
		Protocol: ipv4.ProtocolNumber,
		AddressWithPrefix: tcpip.AddressWithPrefix{
			Address:   tcpip.AddrFrom4(s.gateway.As4()),
			PrefixLen: guest.PrefixLength,
		},
	}
	if err := s.stack.AddProtocolAddress(nicID, address, stack.AddressProperties{}); err != nil {
		return fmt.Errorf("set gateway address: %s", err)
	}
	if err := s.stack.SetSpoofing(nicID, true); err != nil {
		return fmt.Errorf("set spoofing: %s", err)
	}
	if err := s.stack.SetPromiscuousMode(nicID, true); err != nil {
		return fmt.Errorf("set promiscuous mode: %s", err)
	}
	s.stack.SetRouteTable([]tcpip.Route{{Destination: header.IPv4EmptySubnet, NIC: nicID}})
	for _, o := range tcpOptions() {
		if err := s.stack.SetTransportProtocolOption(tcp.ProtocolNumber, o); err != nil {
			return fmt.Errorf("set option %T: %s", o, err)
		}
	}
	// One more than our own limit, so that it is ours that is reached, with a reason.
	s.forwarder = tcp.NewForwarder(s.stack, receiveBuffer, s.limits.Pending+1, s.open)
	s.stack.SetTransportProtocolHandler(tcp.ProtocolNumber, s.handleTCP)
	return nil
}

// Close ends every connection, lets go of the network card (it is closed) and returns when
// nothing of the segment runs any more. A handler that does not return when its connection is gone holds it up.
func (s *Segment) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		s.work.Wait()
		return nil
	}
	s.closed = true
	conns := make([]*Conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()

	s.cancel()
	for _, c := range conns {
		_ = c.Reset()
	}
	s.stack.Close()
	s.attach.Lock()
	if s.wire != nil {
		s.wire.finish()
	}
	s.attach.Unlock()
	s.work.Wait()
	s.stack.Wait()
	s.refusals.close()
	return nil
}

// Names is the segment's table of names.
func (s *Segment) Names() *Names { return s.names }

// start runs f on a goroutine that Close waits for; false when the segment is closed.
func (s *Segment) start(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.work.Go(f)
	return true
}
