package netstack

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"

	"bromure.io/tui/vm/netstack/netstacktest"
)

// wires are what the frames travel over: memory, and datagram sockets with the buffers that a backend sets.
var wires = []struct {
	name string
	make func(testing.TB) (host, guest io.ReadWriteCloser)
}{
	{"memory", func(testing.TB) (io.ReadWriteCloser, io.ReadWriteCloser) { return netstacktest.Pipe() }},
	{"socket", socketPair},
}

func socketPair(t testing.TB) (io.ReadWriteCloser, io.ReadWriteCloser) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_DGRAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]io.ReadWriteCloser
	for i, fd := range fds {
		err := errors.Join(syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_SNDBUF, 4<<20),
			syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<20))
		f := os.NewFile(uintptr(fd), "nic")
		c, ferr := net.FileConn(f)
		if err = errors.Join(err, ferr, f.Close()); err != nil {
			t.Fatal(err)
		}
		ends[i] = c
	}
	return ends[0], ends[1]
}

// benchSegment is an open segment over a wire.
func benchSegment(b *testing.B, make func(testing.TB) (io.ReadWriteCloser, io.ReadWriteCloser), serve Handler) (*Segment, *netstacktest.Guest) {
	b.Helper()
	s, err := New(Config{GuestMAC: testMAC, Policy: allowAll, Handler: serve})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	host, nic := make(b)
	g, err := netstacktest.NewGuest(nic, testMAC)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { g.Close() })
	if err := s.Attach(host); err != nil {
		b.Fatal(err)
	}
	return s, g
}

// BenchmarkThroughput moves bytes; both stacks and the wire share the processors.
func BenchmarkThroughput(b *testing.B) {
	const chunk = 256 << 10
	for _, w := range wires {
		b.Run("up/"+w.name, func(b *testing.B) {
			done := make(chan int64, 1)
			_, g := benchSegment(b, w.make, func(c net.Conn, _ Request) {
				n, _ := io.CopyBuffer(io.Discard, struct{ io.Reader }{c}, make([]byte, chunk))
				done <- n
			})
			c, err := g.Dial(testContext(b), netip.MustParseAddrPort("203.0.113.1:80"))
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(chunk)
			data := make([]byte, chunk)
			for b.Loop() {
				if _, err := c.Write(data); err != nil {
					b.Fatal(err)
				}
			}
			c.Close()
			<-done
		})
		b.Run("down/"+w.name, func(b *testing.B) {
			_, g := benchSegment(b, w.make, func(c net.Conn, _ Request) {
				data := make([]byte, chunk)
				for {
					if _, err := c.Write(data); err != nil {
						return
					}
				}
			})
			c, err := g.Dial(testContext(b), netip.MustParseAddrPort("203.0.113.1:80"))
			if err != nil {
				b.Fatal(err)
			}
			b.SetBytes(chunk)
			data := make([]byte, chunk)
			for b.Loop() {
				if _, err := io.ReadFull(c, data); err != nil {
					b.Fatal(err)
				}
			}
			c.Close()
		})
	}
}

func BenchmarkRoundTrip(b *testing.B) {
	for _, w := range wires {
		b.Run(w.name, func(b *testing.B) {
			s, g := benchSegment(b, w.make, echo)
			l, err := g.Listen(7)
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					go func() { defer c.Close(); io.Copy(c, c) }()
				}
			}()
			c, err := s.Dial(testContext(b), 7)
			if err != nil {
				b.Fatal(err)
			}
			defer c.Close()
			data := make([]byte, 64)
			for b.Loop() {
				if _, err := c.Write(data); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(c, data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkConnect is a whole connection of the guest's: admitted, served, closed. BenchmarkRefuse is one
// that is not.
func BenchmarkConnect(b *testing.B) {
	_, g := benchSegment(b, wires[0].make, func(net.Conn, Request) {})
	for b.Loop() {
		c, err := g.Dial(testContext(b), netip.MustParseAddrPort("203.0.113.1:80"))
		if err != nil {
			b.Fatal(err)
		}
		io.ReadAll(c)
		c.Close()
	}
}

func BenchmarkRefuse(b *testing.B) {
	_, g := benchSegment(b, wires[0].make, echo)
	for b.Loop() {
		if c, err := g.Dial(testContext(b), netip.MustParseAddrPort("192.168.127.1:80")); err == nil {
			c.Close()
			b.Fatal("connected")
		}
	}
}
