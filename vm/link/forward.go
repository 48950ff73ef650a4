package link

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// Forward connects to a TCP port of the guest, at an address of the guest's own: "127.0.0.1:8080",
// "localhost:8080". The connection has CloseWrite and no deadlines.
func (l *Link) Forward(ctx context.Context, addr string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("forward to %q: %w", addr, err)
	}
	number, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	if err != nil || number == 0 {
		return nil, fmt.Errorf("forward to %q: not a port", addr)
	}
	ch, err := l.open(ctx, "direct-tcpip", ssh.Marshal(struct {
		Host     string
		Port     uint32
		FromHost string
		FromPort uint32
	}{host, uint32(number), "127.0.0.1", 0}))
	if err != nil {
		return nil, fmt.Errorf("forward to %q: %w", addr, err)
	}
	return newForwarded(l, ch, addr), nil
}

// forwarded is a connection through the link. Pipes stand between the caller and the channel, whose reads and
// writes would otherwise end only when the guest agrees.
type forwarded struct {
	*io.PipeReader
	in   *io.PipeWriter
	addr string
	end  func()
}

func newForwarded(l *Link, ch channel, addr string) *forwarded {
	outR, outW := io.Pipe()
	inR, inW := io.Pipe()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ssh.DiscardRequests(ch.reqs)
	}()
	var both sync.WaitGroup
	both.Go(func() {
		_, err := io.Copy(outW, ch)
		if err == nil {
			// A service that has said all must not look like a guest that died in the middle; it costs a round trip.
			err = l.lost()
		}
		outW.CloseWithError(err) // nil: the end of file
	})
	both.Go(func() {
		if _, err := io.Copy(ch, inR); err != nil {
			inR.CloseWithError(net.ErrClosed)
		}
		_ = ch.CloseWrite()
	})
	end := func() {
		_ = ch.Close()
		l.expect(ended, "has not closed a forwarded connection")
	}
	go func() {
		both.Wait() // both sides have said their last word
		end()
	}()
	var once sync.Once
	return &forwarded{outR, inW, addr, func() {
		once.Do(func() {
			outR.CloseWithError(net.ErrClosed)
			inW.CloseWithError(net.ErrClosed)
			go end()
		})
	}}
}

func (f *forwarded) Write(b []byte) (int, error) { return f.in.Write(b) }

// CloseWrite is the end of what we send; what the guest sends can still be read.
func (f *forwarded) CloseWrite() error { return f.in.Close() }

func (f *forwarded) Close() error {
	f.end()
	return nil
}

// The addresses are the ones within the guest.
func (f *forwarded) LocalAddr() net.Addr  { return textAddr("link") }
func (f *forwarded) RemoteAddr() net.Addr { return textAddr(f.addr) }

func (f *forwarded) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (f *forwarded) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (f *forwarded) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

type textAddr string

func (textAddr) Network() string  { return "tcp" }
func (a textAddr) String() string { return string(a) }
