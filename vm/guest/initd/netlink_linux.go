package initd

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// rtnetlink(7) messages are in the machine's byte order; all machines we run on are little-endian.
var order = binary.LittleEndian

// message begins a request with its sequence number and fixed part; its length is filled in by attr and the caller of send.
func message(kind uint16, flags uint16, seq uint32, body []byte) []byte {
	m := make([]byte, unix.NLMSG_HDRLEN, 128)
	order.PutUint16(m[4:], kind)
	order.PutUint16(m[6:], flags|unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	order.PutUint32(m[8:], seq)
	return finish(append(m, body...))
}

// attr adds an attribute, padded to 4 bytes.
func attr(m []byte, kind uint16, data []byte) []byte {
	m = order.AppendUint16(m, uint16(unix.SizeofRtAttr+len(data)))
	m = order.AppendUint16(m, kind)
	m = append(m, data...)
	for len(m)%4 != 0 {
		m = append(m, 0)
	}
	return finish(m)
}

func finish(m []byte) []byte {
	order.PutUint32(m, uint32(len(m)))
	return m
}

// linkUp turns an interface on; mtu 0 leaves its MTU.
func linkUp(seq uint32, index int, mtu int) []byte {
	body := make([]byte, unix.SizeofIfInfomsg) // family, pad, type, index, flags, change
	order.PutUint32(body[4:], uint32(index))
	order.PutUint32(body[8:], unix.IFF_UP)
	order.PutUint32(body[12:], unix.IFF_UP)
	m := message(unix.RTM_NEWLINK, 0, seq, body)
	if mtu != 0 {
		m = attr(m, unix.IFLA_MTU, order.AppendUint32(nil, uint32(mtu)))
	}
	return m
}

// addAddress gives an interface an IPv4 address.
func addAddress(seq uint32, index int, p netip.Prefix) []byte {
	body := make([]byte, unix.SizeofIfAddrmsg) // family, prefix length, flags, scope, index
	body[0] = unix.AF_INET
	body[1] = byte(p.Bits())
	body[3] = unix.RT_SCOPE_UNIVERSE
	order.PutUint32(body[4:], uint32(index))
	m := message(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, seq, body)
	m = attr(m, unix.IFA_LOCAL, p.Addr().AsSlice())
	return attr(m, unix.IFA_ADDRESS, p.Addr().AsSlice())
}

// addDefaultRoute sends everything else to the gateway.
func addDefaultRoute(seq uint32, index int, gateway netip.Addr) []byte {
	body := make([]byte, unix.SizeofRtMsg) // family, dst len, src len, tos, table, protocol, scope, type, flags
	body[0] = unix.AF_INET
	body[4] = unix.RT_TABLE_MAIN
	body[5] = unix.RTPROT_BOOT
	body[6] = unix.RT_SCOPE_UNIVERSE
	body[7] = unix.RTN_UNICAST
	m := message(unix.RTM_NEWROUTE, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, seq, body)
	m = attr(m, unix.RTA_GATEWAY, gateway.AsSlice())
	return attr(m, unix.RTA_OIF, order.AppendUint32(nil, uint32(index)))
}

// request is a message with what it does, for its error.
type request struct {
	what string
	msg  []byte
}

// send makes the requests one after the other and waits for the kernel's answer to each.
func send(requests []request) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return fmt.Errorf("open a netlink socket: %w", err)
	}
	defer unix.Close(fd)
	buf := make([]byte, os.Getpagesize())
	for _, r := range requests {
		if err := unix.Sendto(fd, r.msg, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			return fmt.Errorf("%s: %w", r.what, err)
		}
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err == nil {
			err = answer(buf[:n], order.Uint32(r.msg[8:]))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", r.what, err)
		}
	}
	return nil
}

// answer reads the kernel's acknowledgement of the request with that sequence number.
func answer(b []byte, seq uint32) error {
	if len(b) < unix.NLMSG_HDRLEN+4 || order.Uint16(b[4:]) != unix.NLMSG_ERROR || order.Uint32(b[8:]) != seq {
		return fmt.Errorf("an answer of %d bytes that is no acknowledgement", len(b))
	}
	if errno := int32(order.Uint32(b[unix.NLMSG_HDRLEN:])); errno != 0 {
		return unix.Errno(-errno)
	}
	return nil
}
