//go:build linux

package sshd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"time"

	"golang.org/x/crypto/ssh"
)

const dialTimeout = 10 * time.Second

// forward serves direct-tcpip, RFC 4254, section 7.2: a connection to a port of the guest.
func (c *conn) forward(ctx context.Context, nch ssh.NewChannel) {
	addrs, err := parseForward(nch.ExtraData(), net.InterfaceAddrs)
	if err != nil {
		_ = nch.Reject(ssh.Prohibited, err.Error())
		return
	}
	to, err := dialFirst(ctx, addrs)
	if err != nil {
		_ = nch.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	defer to.Close()
	ch, reqs, err := nch.Accept()
	if err != nil {
		return
	}
	defer ch.Close()
	c.wg.Go(func() {
		ssh.DiscardRequests(reqs)
		to.Close() // the client has closed its channel, so nobody reads any more
	})
	sent := make(chan struct{})
	c.wg.Go(func() {
		defer close(sent)
		if _, err := io.Copy(to, ch); err == nil {
			_ = to.CloseWrite()
		} else {
			to.Close()
		}
	})
	if _, err = io.Copy(ch, to); err == nil {
		_ = ch.CloseWrite()
	} else {
		ch.Close()
	}
	<-sent
}

// parseForward reads where a client wants to go and gives the addresses to try. Only addresses of this guest are
// allowed: a host that wants to go elsewhere has better ways, and nothing should look as if it came from the workspace.
func parseForward(b []byte, local func() ([]net.Addr, error)) ([]netip.AddrPort, error) {
	var p struct {
		Host     string
		Port     uint32
		FromHost string
		FromPort uint32
	}
	if err := ssh.Unmarshal(b, &p); err != nil {
		return nil, errors.New("forward: malformed request")
	}
	if p.Port == 0 || p.Port > 65535 {
		return nil, fmt.Errorf("forward: no such port: %d", p.Port)
	}
	port := uint16(p.Port)
	if p.Host == "localhost" || p.Host == "" {
		return []netip.AddrPort{
			netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port),
			netip.AddrPortFrom(netip.IPv6Loopback(), port),
		}, nil
	}
	ip, err := netip.ParseAddr(p.Host)
	if err != nil {
		return nil, errors.New("forward: only localhost and addresses of the guest can be reached")
	}
	ip = ip.Unmap()
	if !ip.IsLoopback() {
		addrs, err := local()
		if err != nil {
			return nil, errors.New("forward: the guest's addresses are not known")
		}
		ours := false
		for _, a := range addrs {
			if pre, err := netip.ParsePrefix(a.String()); err == nil && pre.Addr().Unmap() == ip {
				ours = true
			}
		}
		if !ours {
			return nil, errors.New("forward: " + net.JoinHostPort(ip.String(), strconv.Itoa(int(port))) + " is not in the guest")
		}
	}
	return []netip.AddrPort{netip.AddrPortFrom(ip, port)}, nil
}

func dialFirst(ctx context.Context, addrs []netip.AddrPort) (*net.TCPConn, error) {
	d := net.Dialer{Timeout: dialTimeout}
	var first error
	for _, a := range addrs {
		c, err := d.DialContext(ctx, "tcp", a.String())
		if err == nil {
			return c.(*net.TCPConn), nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}
