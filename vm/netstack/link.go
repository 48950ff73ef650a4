package netstack

import (
	"encoding/binary"
	"sync"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
)

// maxFrame is the longest frame that is read, in bytes: one buffer of gVisor's largest pool. 14 bytes of Ethernet and
// 65,520 of IP fit.
const maxFrame = 64 << 10

const ethernetHeader = header.EthernetMinimumSize

// ethernet knows the two addresses on the wire. There are no others, so nothing is ever resolved.
type ethernet struct {
	guest, gateway [6]byte
}

// put writes the header of a frame to the guest.
func (e ethernet) put(b []byte, etherType tcpip.NetworkProtocolNumber) {
	copy(b[0:6], e.guest[:])
	copy(b[6:12], e.gateway[:])
	binary.BigEndian.PutUint16(b[12:14], uint16(etherType))
}

// link is gVisor's view of the wire. It is a [stack.LinkEndpoint] of our own because channel and ethernet, which
// gVisor has for this, resolve addresses by ARP and queue by packets instead of bytes.
//
// Receive checksums are not verified: a frame comes from the guest's memory over a local socket,
// so a wrong one says nothing about the wire, and a guest that writes wrong ones harms itself.
type link struct {
	eth ethernet
	mtu int
	out *outbox

	mu         sync.RWMutex
	dispatcher stack.NetworkDispatcher
}

var _ stack.LinkEndpoint = (*link)(nil)

func newLink(eth ethernet, mtu, queue int, stats *counters) *link {
	return &link{eth: eth, mtu: mtu, out: newOutbox(queue, stats)}
}

// deliver hands an IPv4 packet to gVisor, which takes its own reference.
func (l *link) deliver(pkt *stack.PacketBuffer) {
	l.mu.RLock()
	d := l.dispatcher
	l.mu.RUnlock()
	if d != nil {
		d.DeliverNetworkPacket(header.IPv4ProtocolNumber, pkt)
	}
}

// WritePackets implements [stack.LinkWriter]. What finds no room is lost, as on any wire.
func (l *link) WritePackets(pkts stack.PacketBufferList) (int, tcpip.Error) {
	for i, pkt := range pkts.AsSlice() {
		if !l.out.put(frame{pkt: pkt}) {
			return i, nil
		}
	}
	return pkts.Len(), nil
}

// AddHeader implements [stack.NetworkLinkEndpoint].
func (l *link) AddHeader(pkt *stack.PacketBuffer) {
	l.eth.put(pkt.LinkHeader().Push(ethernetHeader), pkt.NetworkProtocolNumber)
}

// The rest of [stack.NetworkLinkEndpoint].

func (l *link) MTU() uint32                             { return uint32(l.mtu) }
func (l *link) SetMTU(uint32)                           {}
func (l *link) MaxHeaderLength() uint16                 { return ethernetHeader }
func (l *link) LinkAddress() tcpip.LinkAddress          { return tcpip.LinkAddress(l.eth.gateway[:]) }
func (l *link) SetLinkAddress(tcpip.LinkAddress)        {}
func (l *link) ARPHardwareType() header.ARPHardwareType { return header.ARPHardwareEther }
func (l *link) ParseHeader(*stack.PacketBuffer) bool    { return true }
func (l *link) Wait()                                   {}
func (l *link) Close()                                  {}
func (l *link) SetOnCloseAction(func())                 {}
func (l *link) Capabilities() stack.LinkEndpointCapabilities {
	return stack.CapabilityRXChecksumOffload
}

func (l *link) Attach(d stack.NetworkDispatcher) {
	l.mu.Lock()
	l.dispatcher = d
	l.mu.Unlock()
}

func (l *link) IsAttached() bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.dispatcher != nil
}

// frame is something for the guest: a packet of gVisor's, or bytes of ours.
type frame struct {
	pkt *stack.PacketBuffer
	raw []byte
}

// frameOverhead is what a queued frame costs besides its bytes, about.
const frameOverhead = 512

// size is what the frame occupies in memory.
func (f frame) size() int {
	if f.pkt != nil {
		return f.pkt.Size() + frameOverhead
	}
	return len(f.raw) + frameOverhead
}

// appendTo appends the bytes of the frame to b.
func (f frame) appendTo(b []byte) []byte {
	if f.pkt == nil {
		return append(b, f.raw...)
	}
	for _, part := range f.pkt.AsSlices() {
		b = append(b, part...)
	}
	return b
}

func (f frame) release() {
	if f.pkt != nil {
		f.pkt.DecRef()
	}
}

// outbox holds frames for the network card. It never blocks: a guest that does not read (it may be paused
// for hours) must not hold up the goroutines of the stack. Only while a card is attached does it keep anything.
type outbox struct {
	limit int // bytes of memory
	stats *counters
	wake  chan struct{} // has room for one

	mu     sync.Mutex
	up     bool
	frames []frame
	bytes  int
}

func newOutbox(limit int, stats *counters) *outbox {
	return &outbox{limit: limit, stats: stats, wake: make(chan struct{}, 1)}
}

// put queues f, and takes a reference of its own to a packet.
func (o *outbox) put(f frame) bool {
	size := f.size()
	o.mu.Lock()
	if !o.up || o.bytes+size > o.limit {
		o.mu.Unlock()
		o.stats.lost.Add(1)
		return false
	}
	if f.pkt != nil {
		f.pkt.IncRef()
	}
	o.frames = append(o.frames, f)
	o.bytes += size
	first := len(o.frames) == 1
	o.mu.Unlock()
	if first {
		select {
		case o.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// take returns everything that is queued. The caller gives back the slice of the last
// call, whose frames it has released.
func (o *outbox) take(used []frame) []frame {
	clear(used)
	o.mu.Lock()
	defer o.mu.Unlock()
	out := o.frames
	o.frames = used[:0]
	o.bytes = 0
	return out
}

func (o *outbox) isUp() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.up
}

// set opens or shuts the box; what was in it is dropped.
func (o *outbox) set(up bool) {
	o.mu.Lock()
	o.up = up
	frames := o.frames
	o.frames, o.bytes = nil, 0
	o.mu.Unlock()
	for _, f := range frames {
		f.release()
	}
}
