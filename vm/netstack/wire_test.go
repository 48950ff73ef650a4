package netstack

import (
	"encoding/binary"
	"net"
	"net/netip"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/checksum"
	"gvisor.dev/gvisor/pkg/tcpip/header"

	"bromure.io/tui/vm/netstack/netstacktest"
)

// rawGuest is a segment whose guest is the test itself, frame by frame.
type rawGuest struct {
	*harness
	nic *netstacktest.NIC
}

func newRawGuest(t testing.TB, cfg Config) *rawGuest {
	t.Helper()
	h := newHarness(t, cfg)
	h.guest.Close()
	host, nic := netstacktest.Pipe()
	t.Cleanup(func() { nic.Close() })
	if err := h.Attach(host); err != nil {
		t.Fatal(err)
	}
	return &rawGuest{h, nic}
}

func (g *rawGuest) send(t testing.TB, b []byte) {
	t.Helper()
	if _, err := g.nic.Write(b); err != nil {
		t.Fatal(err)
	}
}

// next is the next frame for the guest.
func (g *rawGuest) next(t testing.TB) []byte {
	t.Helper()
	got := make(chan []byte, 1)
	go func() {
		b := make([]byte, maxFrame)
		n, _ := g.nic.Read(b)
		got <- b[:n]
	}()
	select {
	case b := <-got:
		if len(b) < ethernetHeader || string(b[:6]) != string(mac(testMAC)) || string(b[6:12]) != string(mac("02:00:00:00:00:01")) {
			t.Fatalf("not a frame from the gateway to the guest: %x", b)
		}
		return b
	case <-time.After(patience):
		t.Fatal("no frame came")
		return nil
	}
}

func mac(s string) net.HardwareAddr {
	m, err := net.ParseMAC(s)
	if err != nil {
		panic(err)
	}
	return m
}

const gatewayMAC = "02:00:00:00:00:01"

func ethernetFrame(dst, src string, etherType uint16, payload []byte) []byte {
	b := append(append([]byte(nil), mac(dst)...), mac(src)...)
	return append(binary.BigEndian.AppendUint16(b, etherType), payload...)
}

// ipv4Packet is a valid packet; change is for invalid ones.
func ipv4Packet(src, dst string, proto uint8, payload []byte, change ...func(header.IPv4)) []byte {
	b := make([]byte, header.IPv4MinimumSize+len(payload))
	h := header.IPv4(b)
	h.Encode(&header.IPv4Fields{
		TotalLength: uint16(len(b)),
		TTL:         64,
		Protocol:    proto,
		SrcAddr:     address(netip.MustParseAddr(src)),
		DstAddr:     address(netip.MustParseAddr(dst)),
	})
	copy(b[header.IPv4MinimumSize:], payload)
	for _, f := range change {
		f(h)
	}
	h.SetChecksum(0)
	h.SetChecksum(^h.CalculateChecksum())
	return b
}

func fromGuest(dst string, proto uint8, payload []byte, change ...func(header.IPv4)) []byte {
	return ethernetFrame(gatewayMAC, testMAC, typeIPv4, ipv4Packet("192.168.127.2", dst, proto, payload, change...))
}

func udpPacket(port uint16, payload []byte) []byte {
	b := make([]byte, header.UDPMinimumSize+len(payload))
	header.UDP(b).Encode(&header.UDPFields{SrcPort: 4321, DstPort: port, Length: uint16(len(b))})
	copy(b[header.UDPMinimumSize:], payload)
	return b
}

func synPacket(from, to uint16) []byte {
	b := make([]byte, header.TCPMinimumSize)
	header.TCP(b).Encode(&header.TCPFields{SrcPort: from, DstPort: to, SeqNum: 1, DataOffset: header.TCPMinimumSize, Flags: header.TCPFlagSyn, WindowSize: 65535})
	return b
}

func echoRequest() []byte {
	b := []byte{byte(header.ICMPv4Echo), 0, 0, 0, 0, 7, 0, 1, 'p', 'i', 'n', 'g'}
	header.ICMPv4(b).SetChecksum(^checksum.Checksum(b, 0))
	return b
}

func arpRequest(hw, sender, target string) []byte {
	b := make([]byte, header.ARPSize)
	h := header.ARP(b)
	h.SetIPv4OverEthernet()
	h.SetOp(header.ARPRequest)
	copy(h.HardwareAddressSender(), mac(hw))
	copy(h.ProtocolAddressSender(), netip.MustParseAddr(sender).AsSlice())
	copy(h.ProtocolAddressTarget(), netip.MustParseAddr(target).AsSlice())
	return b
}

// checkIPv4 checks the header of a frame to the guest and returns what it carries.
func checkIPv4(t testing.TB, b []byte, src string, proto uint8) []byte {
	t.Helper()
	h := header.IPv4(b[ethernetHeader:])
	if !h.IsValid(len(h)) || !h.IsChecksumValid() || h.Protocol() != proto || int(h.TotalLength()) != len(h) ||
		fromAddress(h.SourceAddress()).String() != src || fromAddress(h.DestinationAddress()).String() != "192.168.127.2" {
		t.Fatalf("not a packet from %s of protocol %d: %x", src, proto, b)
	}
	return h[h.HeaderLength():]
}

// ping proves that everything sent before it was looked at.
func (g *rawGuest) ping(t testing.TB) {
	t.Helper()
	g.send(t, fromGuest("192.168.127.1", protoICMP, echoRequest()))
	b := checkIPv4(t, g.next(t), "192.168.127.1", protoICMP)
	want := echoRequest()
	if header.ICMPv4(b).Type() != header.ICMPv4EchoReply || checksum.Checksum(b, 0) != 0xffff || string(b[4:]) != string(want[4:]) {
		t.Fatalf("not an echo: %x", b)
	}
}

func TestDroppedFrames(t *testing.T) {
	g := newRawGuest(t, Config{Policy: allowAll, Handler: echo})
	syn := synPacket(1000, 80)
	tests := []struct {
		name  string
		count func(Stats) uint64
		frame []byte
	}{
		{"no header", func(s Stats) uint64 { return s.Malformed }, []byte{1, 2, 3}},
		{"another sender on the wire", func(s Stats) uint64 { return s.Spoofed }, ethernetFrame(gatewayMAC, otherMAC, typeIPv4, ipv4Packet("192.168.127.2", "203.0.113.1", protoTCP, syn))},
		{"another IP address", func(s Stats) uint64 { return s.Spoofed }, ethernetFrame(gatewayMAC, testMAC, typeIPv4, ipv4Packet("192.168.127.3", "203.0.113.1", protoTCP, syn))},
		{"the gateway's address", func(s Stats) uint64 { return s.Spoofed }, ethernetFrame(gatewayMAC, testMAC, typeIPv4, ipv4Packet("192.168.127.1", "203.0.113.1", protoTCP, syn))},
		{"a DHCP client", func(s Stats) uint64 { return s.Foreign }, ethernetFrame("ff:ff:ff:ff:ff:ff", testMAC, typeIPv4, ipv4Packet("0.0.0.0", "255.255.255.255", protoUDP, udpPacket(67, nil)))},
		{"for another card", func(s Stats) uint64 { return s.Foreign }, ethernetFrame(otherMAC, testMAC, typeIPv4, ipv4Packet("192.168.127.2", "203.0.113.1", protoTCP, syn))},
		{"multicast", func(s Stats) uint64 { return s.Foreign }, fromGuest("224.0.0.251", protoUDP, udpPacket(5353, nil))},
		{"broadcast", func(s Stats) uint64 { return s.Foreign }, fromGuest("255.255.255.255", protoUDP, udpPacket(53, nil))},
		{"broadcast of the segment", func(s Stats) uint64 { return s.Foreign }, fromGuest("192.168.127.255", protoTCP, syn)},
		{"to itself", func(s Stats) uint64 { return s.Foreign }, fromGuest("192.168.127.2", protoTCP, syn)},
		{"loopback", func(s Stats) uint64 { return s.Foreign }, fromGuest("127.0.0.1", protoTCP, syn)},
		{"unknown type", func(s Stats) uint64 { return s.Foreign }, ethernetFrame(gatewayMAC, testMAC, 0x88cc, syn)},
		{"VLAN", func(s Stats) uint64 { return s.Foreign }, ethernetFrame(gatewayMAC, testMAC, 0x8100, fromGuest("203.0.113.1", protoTCP, syn)[12:])},
		{"IPv6", func(s Stats) uint64 { return s.IPv6 }, ethernetFrame("33:33:00:00:00:02", testMAC, typeIPv6, make([]byte, 60))},
		{"first fragment", func(s Stats) uint64 { return s.Fragments }, fromGuest("203.0.113.1", protoTCP, syn, func(h header.IPv4) { h.SetFlagsFragmentOffset(header.IPv4FlagMoreFragments, 0) })},
		{"later fragment", func(s Stats) uint64 { return s.Fragments }, fromGuest("203.0.113.1", protoTCP, syn, func(h header.IPv4) { h.SetFlagsFragmentOffset(0, 64) })},
		{"IP options", func(s Stats) uint64 { return s.Malformed }, fromGuest("203.0.113.1", protoTCP, append(make([]byte, 4), syn...), func(h header.IPv4) { h[0] = 0x46 })},
		{"IP version 5", func(s Stats) uint64 { return s.Malformed }, fromGuest("203.0.113.1", protoTCP, syn, func(h header.IPv4) { h[0] = 0x55 })},
		{"longer than it is", func(s Stats) uint64 { return s.Malformed }, fromGuest("203.0.113.1", protoTCP, syn, func(h header.IPv4) { h.SetTotalLength(2000) })},
		{"shorter than its header", func(s Stats) uint64 { return s.Malformed }, fromGuest("203.0.113.1", protoTCP, syn, func(h header.IPv4) { h.SetTotalLength(19) })},
		{"cut TCP header", func(s Stats) uint64 { return s.Malformed }, fromGuest("203.0.113.1", protoTCP, syn[:19])},
		{"cut UDP header", func(s Stats) uint64 { return s.Malformed }, fromGuest("203.0.113.1", protoUDP, make([]byte, 7))},
		{"UDP longer than it is", func(s Stats) uint64 { return s.Malformed }, fromGuest("203.0.113.1", protoUDP, []byte{0, 1, 0, 53, 0, 200, 0, 0})},
		{"cut ICMP", func(s Stats) uint64 { return s.Malformed }, fromGuest("192.168.127.1", protoICMP, []byte{8, 0, 0})},
		{"cut ARP", func(s Stats) uint64 { return s.Malformed }, ethernetFrame(gatewayMAC, testMAC, typeARP, make([]byte, 27))},
		{"ARP of another", func(s Stats) uint64 { return s.Spoofed }, ethernetFrame("ff:ff:ff:ff:ff:ff", testMAC, typeARP, arpRequest(otherMAC, "192.168.127.2", "192.168.127.1"))},
		{"ARP for another", func(s Stats) uint64 { return s.Spoofed }, ethernetFrame("ff:ff:ff:ff:ff:ff", testMAC, typeARP, arpRequest(testMAC, "192.168.127.1", "192.168.127.1"))},
		{"DNS rubbish", func(s Stats) uint64 { return s.Malformed }, fromGuest("203.0.113.1", protoUDP, udpPacket(53, []byte("rubbish")))},
	}
	for _, tt := range tests {
		before := g.Stats()
		g.send(t, tt.frame)
		g.ping(t) // the next frame that comes is the answer to this: the other got none
		after := g.Stats()
		if got := tt.count(after) - tt.count(before); got != 1 {
			t.Errorf("%s: counted %d times: %+v", tt.name, got, after)
		}
		if after.Admitted != before.Admitted || after.Refused != before.Refused {
			t.Errorf("%s: %+v", tt.name, after)
		}
	}
}

func TestARP(t *testing.T) {
	g := newRawGuest(t, Config{})
	for _, target := range []string{"192.168.127.1", "192.168.127.3", "192.168.127.254"} {
		g.send(t, ethernetFrame("ff:ff:ff:ff:ff:ff", testMAC, typeARP, arpRequest(testMAC, "192.168.127.2", target)))
		b := g.next(t)
		h := header.ARP(b[ethernetHeader:])
		if binary.BigEndian.Uint16(b[12:]) != typeARP || !h.IsValid() || h.Op() != header.ARPReply ||
			net.HardwareAddr(h.HardwareAddressSender()).String() != gatewayMAC || net.IP(h.ProtocolAddressSender()).String() != target ||
			net.HardwareAddr(h.HardwareAddressTarget()).String() != testMAC || net.IP(h.ProtocolAddressTarget()).String() != "192.168.127.2" {
			t.Errorf("%s: got %x", target, b)
		}
	}
	// Its own address is free (it probes, and announces), and other networks are behind the gateway.
	for _, f := range [][]byte{
		arpRequest(testMAC, "0.0.0.0", "192.168.127.2"),
		arpRequest(testMAC, "192.168.127.2", "192.168.127.2"),
		arpRequest(testMAC, "192.168.127.2", "10.0.0.1"),
	} {
		g.send(t, ethernetFrame("ff:ff:ff:ff:ff:ff", testMAC, typeARP, f))
		g.ping(t)
	}
}

func TestWhatIsNotTCPIsUnreachable(t *testing.T) {
	g := newRawGuest(t, Config{Policy: allowAll, Handler: echo})
	addr := g.mustAssign(t, "quic.example")
	for _, tt := range []struct {
		frame []byte
		code  header.ICMPv4Code
		want  Refusal
	}{
		{fromGuest(addr, protoUDP, udpPacket(443, []byte("hello"))), header.ICMPv4PortUnreachable, Refusal{Proto: UDP, Port: 443, Rule: RuleUDP, Name: "quic.example"}},
		{fromGuest("192.168.127.1", protoUDP, udpPacket(123, nil)), header.ICMPv4PortUnreachable, Refusal{Proto: UDP, Port: 123, Rule: RuleUDP}},
		{fromGuest("203.0.113.1", protoICMP, echoRequest()), header.ICMPv4AdminProhibited, Refusal{Proto: ICMP, Rule: RulePing}},
		{fromGuest("203.0.113.1", 47, make([]byte, 30)), header.ICMPv4ProtoUnreachable, Refusal{Proto: Other, Rule: RuleProtocol}},
	} {
		g.send(t, tt.frame)
		sent := header.IPv4(tt.frame[ethernetHeader:])
		dst := fromAddress(sent.DestinationAddress())
		b := checkIPv4(t, g.next(t), dst.String(), protoICMP)
		if h := header.ICMPv4(b); h.Type() != header.ICMPv4DstUnreachable || h.Code() != tt.code || checksum.Checksum(b, 0) != 0xffff {
			t.Errorf("%+v: got %x", tt.want, b)
		}
		if quote := b[header.ICMPv4MinimumSize:]; string(quote) != string(sent[:28]) {
			t.Errorf("%+v: quotes %x", tt.want, quote)
		}
		tt.want.Addr, tt.want.Count = dst, 1
		got := g.refusal(t, func(r Refusal) bool { return r.Addr == dst && r.Port == tt.want.Port && r.Proto == tt.want.Proto })
		if got.Reason == "" {
			t.Errorf("%+v: no reason", got)
		}
		got.Reason, got.Time = "", time.Time{}
		if got != tt.want {
			t.Errorf("got %+v, want %+v", got, tt.want)
		}
	}
}

// What follows the packet in its frame is padding, however much it is.
func TestPaddingIsIgnored(t *testing.T) {
	g := newRawGuest(t, Config{})
	for _, padding := range []int{1, 26, smallFrame, maxFrame - 200} {
		g.send(t, append(fromGuest("203.0.113.1", protoTCP, synPacket(uint16(1000), 80)), make([]byte, padding)...))
		if h := header.TCP(checkIPv4(t, g.next(t), "203.0.113.1", protoTCP)); !h.Flags().Contains(header.TCPFlagRst) {
			t.Errorf("%d bytes of padding: got %x", padding, h)
		}
		g.send(t, append(fromGuest("192.168.127.1", protoICMP, echoRequest()), make([]byte, padding)...))
		if b := checkIPv4(t, g.next(t), "192.168.127.1", protoICMP); len(b) != len(echoRequest()) {
			t.Errorf("%d bytes of padding: an echo of %d bytes", padding, len(b))
		}
	}
}
