package netstack

import (
	"context"
	"net/netip"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/waiter"
)

// Buffers of one connection, in bytes. The first size holds four segments of the usual MTU, which is four times what is
// under way at 200 MB/s and 0.3 ms; as fast as 1 MiB when measured. They grow to the maximum only while the reader keeps
// up, so a guest that fills all its connections for a reader that does not read makes the host hold 256 MiB.
const (
	receiveBuffer    = 256 << 10
	sendBuffer       = 256 << 10
	maxReceiveBuffer = 4 << 20
	maxSendBuffer    = 4 << 20
)

// Ports that have a meaning here.
const (
	portDNS        = 53
	portDNSOverTLS = 853
)

// tcpOptions are the settings of the whole stack.
func tcpOptions() []tcpip.SettableTransportProtocolOption {
	sack := tcpip.TCPSACKEnabled(true)
	receive := tcpip.TCPReceiveBufferSizeRangeOption{Min: 4 << 10, Default: receiveBuffer, Max: maxReceiveBuffer}
	send := tcpip.TCPSendBufferSizeRangeOption{Min: 4 << 10, Default: sendBuffer, Max: maxSendBuffer}
	// Nothing on this wire overtakes anything, so no segment of an old connection can arrive in a new one, and the minutes of
	// RFC 9293 are not needed. gVisor drops a SYN for a pair of ports that still waits, which costs the guest a second.
	timeWait := tcpip.TCPTimeWaitTimeoutOption(10 * time.Millisecond)
	finWait := tcpip.TCPLingerTimeoutOption(30 * time.Second)
	synRetries := tcpip.TCPSynRetriesOption(4) // 1+2+4+8+16 s for a half-open connection
	return []tcpip.SettableTransportProtocolOption{&sack, &receive, &send, &timeWait, &finWait, &synRetries}
}

// handleTCP gets every segment that belongs to no connection. What it does not take, gVisor answers with a RST: that
// is how a refused connection looks, and how a stray segment does.
func (s *Segment) handleTCP(id stack.TransportEndpointID, pkt *stack.PacketBuffer) (taken bool) {
	flags := header.TCP(pkt.TransportHeader().Slice()).Flags()
	if !flags.Contains(header.TCPFlagSyn) || flags.Contains(header.TCPFlagAck) {
		return false
	}
	r := s.request(fromAddress(id.LocalAddress), id.LocalPort)
	if v := s.judge(r); !v.Allow {
		s.refuseTCP(r, v)
		return false
	}

	s.mu.Lock()
	if _, again := s.pending[id]; again {
		s.mu.Unlock()
		return true // the guest repeats its SYN while we decide
	}
	if busy := s.busyLocked(); busy != "" || s.closed {
		s.mu.Unlock()
		s.refuseTCP(r, Verdict{Rule: RuleBusy, Reason: busy})
		return false
	}
	s.pending[id] = struct{}{}
	s.mu.Unlock()

	if !s.forwarder.HandlePacket(id, pkt) {
		s.notPending(id)
		return false
	}
	return true
}

func (s *Segment) notPending(id stack.TransportEndpointID) {
	s.mu.Lock()
	delete(s.pending, id)
	s.mu.Unlock()
}

// busyLocked says which limit is reached, if one is.
func (s *Segment) busyLocked() string {
	if len(s.pending) >= s.limits.Pending {
		return "too many connections are being opened at once"
	}
	// gVisor counts connections until their last segment is acknowledged; ours are gone from our books earlier.
	if s.fromGuest >= s.limits.Connections || s.stack.Stats().TCP.CurrentConnected.Value() >= uint64(2*s.limits.Connections) {
		return "too many connections are open"
	}
	return ""
}

// request names what the guest connects to.
func (s *Segment) request(addr netip.Addr, port uint16) Request {
	if name, ok := s.names.Reverse(addr); ok {
		return Request{Name: name, Addr: addr, Port: port}
	}
	return Request{Name: addr.String(), Addr: addr, Literal: true, Port: port}
}

// judge applies the segment's own rules. Allow means that they have nothing against r.
func (s *Segment) judge(r Request) Verdict {
	switch {
	case r.Port == portDNS:
		return Verdict{Allow: true} // answered here, whatever the address
	case s.subnet.Contains(r.Addr):
		return Verdict{Rule: RuleSegment, Reason: "nothing answers at this address and port of the workspace's own network"}
	case r.Literal && synthetic.Contains(r.Addr):
		return Verdict{Rule: RuleUnknown, Reason: "no name was looked up for this address"}
	case reserved(r.Addr):
		return Verdict{Rule: RuleReserved, Reason: "no host has such an address"}
	case r.Port == portDNSOverTLS, isResolver(r.Name):
		return Verdict{Rule: RuleResolver, Reason: "names are resolved by the workspace's own network, not by a public resolver"}
	case s.policy == nil:
		return Verdict{Rule: RuleClosed, Reason: "the network of this workspace is closed"}
	}
	return Verdict{Allow: true}
}

// reserved says whether addr can be no host's (RFC 6890): this network, loopback, class E. Multicast does not get here.
func reserved(addr netip.Addr) bool {
	first := addr.As4()[0]
	return first == 0 || first == 127 || first >= 240
}

func (s *Segment) refuseTCP(r Request, v Verdict) {
	f := Refusal{Proto: TCP, Addr: r.Addr, Port: r.Port, Rule: v.Rule, Reason: v.Reason}
	if !r.Literal {
		f.Name = r.Name
	}
	if f.Rule == "" {
		f.Rule = RulePolicy
	}
	if f.Reason == "" {
		f.Reason = "refused by the rules of this workspace"
	}
	s.refuse(f)
}

// open decides about a SYN and, if it is admitted, completes the handshake and serves the connection. It runs on a
// goroutine of the forwarder's; until then the guest has no answer.
func (s *Segment) open(fr *tcp.ForwarderRequest) {
	id := fr.ID()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		fr.Complete(true)
		return
	}
	s.work.Add(1)
	s.mu.Unlock()
	defer s.work.Done()

	r := s.request(fromAddress(id.LocalAddress), id.LocalPort)
	if !r.Literal {
		defer s.names.hold(r.Addr)() // the name stays while it is decided about and used
	}
	if r.Port != portDNS {
		if v := s.policy.Admit(s.ctx, r); !v.Allow {
			s.refuseTCP(r, v)
			fr.Complete(true)
			s.notPending(id)
			return
		}
	}
	conn, err := s.complete(fr)
	s.notPending(id)
	if err != nil {
		s.stats.abandoned.Add(1)
		return
	}
	defer conn.Close()
	if r.Port == portDNS {
		s.serveDNS(conn)
		return
	}
	s.stats.admitted.Add(1)
	s.handler(conn, r)
}

// complete does the handshake.
func (s *Segment) complete(fr *tcp.ForwarderRequest) (*Conn, error) {
	queue := new(waiter.Queue)
	// The handshake waits for an event of this queue and for nothing else, so the end of the segment is made one.
	stop := context.AfterFunc(s.ctx, func() { queue.Notify(waiter.WritableEvents | waiter.EventHUp) })
	defer stop()
	ep, terr := fr.CreateEndpoint(queue)
	if terr != nil {
		fr.Complete(true)
		return nil, netError(terr)
	}
	fr.Complete(false)
	return s.newConn(queue, ep, true)
}
