package netstack

import (
	"net/netip"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"
)

// Limits on ICMP messages to the guest: errors cost the sender of a packet nothing, so a flood of
// packets must not become a flood of answers. A second's worth of failing QUIC clients fits.
const (
	icmpPerSecond = 1000
	icmpBurst     = 200
)

// answerARP answers a request for the gateway, and for every other address of the segment but the
// guest's own, so that a guest that tries one is refused at once instead of waiting for a neighbour
// (RFC 826).
func (s *Segment) answerARP(b []byte) {
	if len(b) < header.ARPSize {
		s.stats.malformed.Add(1)
		return
	}
	h := header.ARP(b[:header.ARPSize])
	if !h.IsValid() || h.Op() != header.ARPRequest {
		return // a reply, or one for other hardware: we never asked
	}
	sender := netip.AddrFrom4([4]byte(h.ProtocolAddressSender()))
	target := netip.AddrFrom4([4]byte(h.ProtocolAddressTarget()))
	if [6]byte(h.HardwareAddressSender()) != s.eth.guest || sender != s.guest && !sender.IsUnspecified() {
		s.stats.spoofed.Add(1)
		return
	}
	if target == s.guest || !s.subnet.Contains(target) {
		return // the guest probes its own address (RFC 5227), or asks for what is behind a router
	}
	out := make([]byte, ethernetHeader+header.ARPSize)
	s.eth.put(out, typeARP)
	r := header.ARP(out[ethernetHeader:])
	r.SetIPv4OverEthernet()
	r.SetOp(header.ARPReply)
	copy(r.HardwareAddressSender(), s.eth.gateway[:])
	copy(r.ProtocolAddressSender(), h.ProtocolAddressTarget())
	copy(r.HardwareAddressTarget(), h.HardwareAddressSender())
	copy(r.ProtocolAddressTarget(), h.ProtocolAddressSender())
	s.link.out.put(frame{raw: out})
}

// answerICMP answers a ping of the gateway and refuses one of anything else. It returns true for
// an error about a packet of ours, which TCP must hear of (a smaller MTU behind the guest, RFC 1191).
func (s *Segment) answerICMP(p packet) (deliver bool) {
	if len(p.payload) < header.ICMPv4MinimumSize {
		s.stats.malformed.Add(1)
		return false
	}
	switch header.ICMPv4(p.payload).Type() {
	case header.ICMPv4Echo:
		if p.dst != s.gateway {
			s.refuse(Refusal{Proto: ICMP, Addr: p.dst, Rule: RulePing, Reason: "ping reaches the gateway only"})
			s.unreachable(p, header.ICMPv4AdminProhibited)
			return false
		}
		if !s.icmpRate.take() {
			return false
		}
		out, body := s.newPacket(p.dst, protoICMP, len(p.payload))
		copy(body, p.payload)
		h := header.ICMPv4(body)
		h.SetType(header.ICMPv4EchoReply)
		h.SetCode(0)
		h.SetChecksum(0)
		h.SetChecksum(^checksum.Checksum(body, 0))
		s.link.out.put(frame{raw: out})
	case header.ICMPv4DstUnreachable:
		return true
	}
	return false
}

// unreachable tells the guest that p will not arrive and why, with its header and the first eight bytes
// of what it carried (RFC 792), which is how the guest finds the socket.
func (s *Segment) unreachable(p packet, code header.ICMPv4Code) {
	if !s.icmpRate.take() {
		return
	}
	quote := p.ip[:min(len(p.ip), header.IPv4MinimumSize+8)]
	out, body := s.newPacket(p.dst, protoICMP, header.ICMPv4MinimumSize+len(quote))
	h := header.ICMPv4(body)
	h.SetType(header.ICMPv4DstUnreachable)
	h.SetCode(code)
	copy(body[header.ICMPv4MinimumSize:], quote)
	h.SetChecksum(^checksum.Checksum(body, 0))
	s.link.out.put(frame{raw: out})
}

// answerUDP answers DNS, whatever the address it was sent to, and refuses everything else at once:
// a QUIC client falls back to TCP when its port is unreachable, and waits for seconds when nothing comes back.
func (s *Segment) answerUDP(p packet) {
	h := header.UDP(p.payload)
	if len(h) < header.UDPMinimumSize || int(h.Length()) < header.UDPMinimumSize || int(h.Length()) > len(h) {
		s.stats.malformed.Add(1)
		return
	}
	if h.DestinationPort() != portDNS {
		s.refuse(Refusal{Proto: UDP, Addr: p.dst, Port: h.DestinationPort(), Rule: RuleUDP, Reason: "only TCP leaves a workspace"})
		s.unreachable(p, header.ICMPv4PortUnreachable)
		return
	}
	answer := s.answerDNS(h[header.UDPMinimumSize:h.Length()])
	if answer == nil {
		return
	}
	out, body := s.newPacket(p.dst, protoUDP, header.UDPMinimumSize+len(answer))
	copy(body[header.UDPMinimumSize:], answer)
	u := header.UDP(body)
	u.Encode(&header.UDPFields{
		SrcPort: portDNS,
		DstPort: h.SourcePort(),
		Length:  uint16(len(body)),
	})
	sum := header.PseudoHeaderChecksum(protoUDP, address(p.dst), address(s.guest), uint16(len(body)))
	u.SetChecksum(^u.CalculateChecksum(checksum.Checksum(answer, sum)))
	s.link.out.put(frame{raw: out})
}

// newPacket makes a frame to the guest with an IPv4 packet from src in it, whose payload of n bytes is for the caller to fill.
func (s *Segment) newPacket(src netip.Addr, proto uint8, n int) (frame, payload []byte) {
	frame = make([]byte, ethernetHeader+header.IPv4MinimumSize+n)
	s.eth.put(frame, typeIPv4)
	h := header.IPv4(frame[ethernetHeader:])
	h.Encode(&header.IPv4Fields{
		TotalLength: uint16(header.IPv4MinimumSize + n),
		Flags:       header.IPv4FlagDontFragment,
		TTL:         64,
		Protocol:    proto,
		SrcAddr:     address(src),
		DstAddr:     address(s.guest),
	})
	h.SetChecksum(^h.CalculateChecksum())
	return frame, frame[ethernetHeader+header.IPv4MinimumSize:]
}

// address is a in gVisor's form.
func address(a netip.Addr) tcpip.Address { return tcpip.AddrFrom4(a.As4()) }

// fromAddress is the opposite of [address].
func fromAddress(a tcpip.Address) netip.Addr { return netip.AddrFrom4(a.As4()) }
