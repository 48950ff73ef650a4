package netstack

import (
	"encoding/binary"
	"net/netip"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/header"
)

// EtherTypes.
const (
	typeIPv4 = 0x0800
	typeARP  = 0x0806
	typeIPv6 = 0x86dd
)

// IP protocol numbers.
const (
	protoICMP = 1
	protoIGMP = 2
	protoTCP  = 6
	protoUDP  = 17
)

// The law of this file: a frame is dropped unless it is one that an honest guest on this segment sends. Everything
// but TCP is answered here, statelessly, into the outbox; b is only read.

// gate decides about one frame from the guest. ok means that the IP packet of the given length, which follows
// the Ethernet header, is for gVisor: TCP, or an ICMP error about it.
func (s *Segment) gate(b []byte) (length int, ok bool) {
	if len(b) < ethernetHeader {
		s.stats.malformed.Add(1)
		return 0, false
	}
	if [6]byte(b[6:12]) != s.eth.guest {
		s.stats.spoofed.Add(1)
		return 0, false
	}
	dst := [6]byte(b[0:6])
	switch binary.BigEndian.Uint16(b[12:14]) {
	case typeARP:
		if dst == s.eth.gateway || dst == broadcastMAC {
			s.answerARP(b[ethernetHeader:])
		} else {
			s.stats.foreign.Add(1)
		}
		return 0, false
	case typeIPv4:
		if dst != s.eth.gateway {
			s.stats.foreign.Add(1) // broadcast and multicast, too: nobody else is here
			return 0, false
		}
		return s.gateIPv4(b[ethernetHeader:])
	case typeIPv6:
		s.stats.ipv6.Add(1)
	default:
		s.stats.foreign.Add(1)
	}
	return 0, false
}

var broadcastMAC = [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// packet is an IPv4 packet that passed the checks common to all.
type packet struct {
	ip       []byte // header and payload, without padding
	payload  []byte
	src, dst netip.Addr
}

// gateIPv4 checks the header (RFC 791, section 3.1). Options are refused: nothing that we serve
// uses them. So are fragments: the guest's MTU is ours, so an honest one has no reason to send any, and nothing
// needs to be put together or timed out here.
func (s *Segment) gateIPv4(b []byte) (length int, ok bool) {
	if len(b) < header.IPv4MinimumSize || b[0] != 4<<4|header.IPv4MinimumSize/4 {
		s.stats.malformed.Add(1)
		return 0, false
	}
	h := header.IPv4(b)
	length = int(h.TotalLength())
	if length < header.IPv4MinimumSize || length > len(b) {
		s.stats.malformed.Add(1)
		return 0, false
	}
	if h.More() || h.FragmentOffset() != 0 {
		s.stats.fragments.Add(1)
		return 0, false
	}
	p := packet{
		ip:      b[:length],
		payload: b[header.IPv4MinimumSize:length],
		src:     netip.AddrFrom4([4]byte(b[12:16])),
		dst:     netip.AddrFrom4([4]byte(b[16:20])),
	}
	if p.src != s.guest {
		s.stats.spoofed.Add(1)
		return 0, false
	}
	if p.dst.IsMulticast() || p.dst.IsLoopback() || p.dst == s.guest || p.dst == s.broadcast || p.dst.As4() == [4]byte{255, 255, 255, 255} {
		s.stats.foreign.Add(1)
		return 0, false
	}
	switch h.Protocol() {
	case protoTCP:
		if len(p.payload) < header.TCPMinimumSize {
			s.stats.malformed.Add(1)
			return 0, false
		}
		return length, true
	case protoUDP:
		s.answerUDP(p)
	case protoICMP:
		return length, s.answerICMP(p)
	default:
		s.refuse(Refusal{Proto: Other, Addr: p.dst, Rule: RuleProtocol, Reason: "only TCP leaves a workspace"})
		s.unreachable(p, header.ICMPv4ProtoUnreachable)
	}
	return 0, false
}

// refuse records a refusal, with the name of the address if it has one.
func (s *Segment) refuse(r Refusal) {
	r.Time = time.Now()
	if r.Name == "" && r.Addr.IsValid() {
		r.Name, _ = s.names.Reverse(r.Addr)
	}
	s.stats.refused.Add(1)
	s.refusals.add(r)
}
