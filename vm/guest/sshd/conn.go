//go:build linux

package sshd

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"bromure.io/tui/vm/guest"
)

// conn is one connection that has logged in.
type conn struct {
	srv      *Server
	user     string
	ssh      *ssh.ServerConn
	channels atomic.Int32
	wg       sync.WaitGroup
}

// A host that is gone without a word (its daemon was killed) must not keep programs and slots for ever: its successor's network
// answers the first probe with a reset, and without a successor the connection ends after these.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 15 * time.Second, Count: 8}

// serveConn runs a connection from its handshake to the end of everything that was started through it.
func (s *Server) serveConn(ctx context.Context, nc net.Conn) {
	if t, ok := nc.(*net.TCPConn); ok {
		_ = t.SetKeepAliveConfig(keepAlive) // without it such a host is only noticed later
	}
	_ = nc.SetDeadline(time.Now().Add(handshakeTimeout))
	batched := newBatcher(nc)
	defer batched.Close()
	sc, chans, reqs, err := ssh.NewServerConn(batched, s.ssh)
	if err != nil {
		s.log.Warn("ssh handshake", "from", nc.RemoteAddr(), "err", err) // not every kind of connection has one at its end
		return
	}
	_ = nc.SetDeadline(time.Time{})
	ctx, cancel := context.WithCancel(ctx)
	c := &conn{srv: s, user: sc.User(), ssh: sc}
	defer c.wg.Wait()
	defer cancel()
	defer sc.Close()
	c.wg.Go(func() { c.globalRequests(reqs) })
	for nch := range chans {
		if c.channels.Add(1) > maxChannels {
			c.channels.Add(-1)
			_ = nch.Reject(ssh.ResourceShortage, "too many channels")
			continue
		}
		c.wg.Go(func() {
			defer c.channels.Add(-1)
			c.serveChannel(ctx, nch)
		})
	}
}

// globalRequests answers what concerns the whole connection. Unknown requests, keepalives among
// them, are refused: an answer is all that their senders want.
func (c *conn) globalRequests(reqs <-chan *ssh.Request) {
	for r := range reqs {
		if r.Type == "tcpip-forward" || r.Type == "streamlocal-forward@openssh.com" {
			// Listening in the guest on behalf of the host would let the guest connect to the host.
			c.srv.log.Info("refused to listen for the client: a workspace cannot open connections to its host")
		}
		if r.WantReply {
			_ = r.Reply(false, nil)
		}
	}
}

func (c *conn) serveChannel(ctx context.Context, nch ssh.NewChannel) {
	switch nch.ChannelType() {
	case "session":
		ch, reqs, err := nch.Accept()
		if err != nil {
			return
		}
		(&session{conn: c, ch: ch, env: make(map[string]string)}).serve(reqs)
	case "direct-tcpip":
		c.forward(ctx, nch)
	case guest.CallChannel:
		c.call(ctx, nch)
	default:
		_ = nch.Reject(ssh.UnknownChannelType, "unknown channel type")
	}
}
