package netstacktest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"

	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/link/ethernet"
	"gvisor.dev/gvisor/pkg/tcpip/network/arp"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/icmp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"

	"bromure.io/tui/vm/guest"
)

// Guest is a TCP/IP stack with the addresses of a real guest. It asks by ARP for what is on its segment, and
// sends everything else to the gateway.
type Guest struct {
	stack *stack.Stack
	ep    *channel.Endpoint
	stop  context.CancelFunc
	done  sync.WaitGroup
	nic   io.ReadWriteCloser
}

const nicID = 1

// NewGuest starts a guest behind nic, which it closes in the end.
func NewGuest(nic io.ReadWriteCloser, mac string) (*Guest, error) {
	hw, err := tcpip.ParseMACAddress(mac)
	if err != nil {
		return nil, err
	}
	g := &Guest{
		stack: stack.New(stack.Options{
			NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, arp.NewProtocol},
			TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol, icmp.NewProtocol4},
		}),
		ep:  channel.New(1024, guest.MTU+header.EthernetMinimumSize, hw),
		nic: nic,
	}
	address := tcpip.ProtocolAddress{
		Protocol: ipv4.ProtocolNumber,
		AddressWithPrefix: tcpip.AddressWithPrefix{
			Address:   addressOf(netip.MustParseAddr(guest.GuestAddress)),
			PrefixLen: guest.PrefixLength,
		},
	}
	sack := tcpip.TCPSACKEnabled(true)
	for _, err := range []tcpip.Error{
		g.stack.CreateNIC(nicID, ethernet.New(g.ep)),
		g.stack.AddProtocolAddress(nicID, address, stack.AddressProperties{}),
		g.stack.SetTransportProtocolOption(tcp.ProtocolNumber, &sack),
	} {
		if err != nil {
			g.stack.Destroy()
			return nil, errors.New(err.String())
		}
	}
	gateway := addressOf(netip.MustParseAddr(guest.GatewayAddress))
	g.stack.SetRouteTable([]tcpip.Route{
		{Destination: address.AddressWithPrefix.Subnet(), NIC: nicID},
		{Destination: header.IPv4EmptySubnet, Gateway: gateway, NIC: nicID},
	})
	ctx, stop := context.WithCancel(context.Background())
	g.stop = stop
	g.done.Go(func() { g.send(ctx) })
	g.done.Go(g.receive)
	return g, nil
}

func (g *Guest) send(ctx context.Context) {
	buf := make([]byte, 0, 64<<10)
	for {
		p := g.ep.ReadContext(ctx)
		if p == nil {
			return
		}
		buf = buf[:0]
		for _, s := range p.AsSlices() {
			buf = append(buf, s...)
		}
		p.DecRef()
		_, _ = g.nic.Write(buf) // lost, as on a wire
	}
}

func (g *Guest) receive() {
	buf := make([]byte, 64<<10)
	for {
		n, err := g.nic.Read(buf)
		if err != nil {
			if errors.Is(err, net.ErrClosed) || errors.Is(err, io.EOF) {
				return
			}
			continue
		}
		p := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithView(buffer.NewViewWithData(buf[:n]))})
		g.ep.InjectInbound(0, p)
		p.DecRef()
	}
}

// Dial opens a TCP connection from the guest.
func (g *Guest) Dial(ctx context.Context, to netip.AddrPort) (*gonet.TCPConn, error) {
	return gonet.DialContextTCP(ctx, g.stack, full(to), ipv4.ProtocolNumber)
}

// DialUDP opens a connected UDP socket in the guest.
func (g *Guest) DialUDP(to netip.AddrPort) (net.Conn, error) {
	addr := full(to)
	return gonet.DialUDP(g.stack, nil, &addr, ipv4.ProtocolNumber)
}

// Listen opens a TCP port of the guest.
func (g *Guest) Listen(port uint16) (net.Listener, error) {
	l, err := gonet.ListenTCP(g.stack, tcpip.FullAddress{NIC: nicID, Port: port}, ipv4.ProtocolNumber)
	if err != nil {
		return nil, fmt.Errorf("listen in the guest: %w", err)
	}
	return l, nil
}

// Close stops the guest.
func (g *Guest) Close() error {
	g.stop()
	err := g.nic.Close()
	g.done.Wait()
	g.ep.Close()
	g.stack.Destroy()
	return err
}

func addressOf(a netip.Addr) tcpip.Address { return tcpip.AddrFrom4(a.As4()) }

func full(a netip.AddrPort) tcpip.FullAddress {
	return tcpip.FullAddress{NIC: nicID, Addr: addressOf(a.Addr()), Port: a.Port()}
}
