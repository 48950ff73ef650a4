package netstack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"testing"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"

	"bromure.io/tui/vm/netstack/netstacktest"
)

func TestAdmittedConnectionReachesTheHandlerByName(t *testing.T) {
	got := make(chan Request, 2)
	h := newHarness(t, Config{
		Policy: allowAll,
		Handler: func(c net.Conn, r Request) {
			got <- r
			io.WriteString(c, c.LocalAddr().String()+" "+c.RemoteAddr().(*net.TCPAddr).IP.String())
		},
	})
	addr := h.mustAssign(t, "api.example.com")
	c := h.mustDial(t, addr, 8443)
	b, err := io.ReadAll(c) // ends: the handler's return closes the connection
	if want := addr + ":8443 192.168.127.2"; err != nil || string(b) != want {
		t.Errorf("got %q (%v), want %q", b, err, want)
	}
	if r := <-got; r != (Request{Name: "api.example.com", Addr: netip.MustParseAddr(addr), Port: 8443}) {
		t.Errorf("got %+v", r)
	}

	c = h.mustDial(t, "203.0.113.7", 25)
	io.ReadAll(c)
	if r := <-got; r != (Request{Name: "203.0.113.7", Addr: netip.MustParseAddr("203.0.113.7"), Literal: true, Port: 25}) {
		t.Errorf("got %+v", r)
	}
	if st := h.Stats(); st.Admitted != 2 || st.Refused != 0 {
		t.Errorf("got %+v", st)
	}
}

func TestPolicyMayTakeItsTime(t *testing.T) {
	answer := make(chan Verdict)
	h := newHarness(t, Config{
		Handler: echo,
		Policy: PolicyFunc(func(ctx context.Context, r Request) Verdict {
			select {
			case v := <-answer:
				return v
			case <-ctx.Done():
				return Verdict{}
			}
		}),
	})
	addr := h.mustAssign(t, "example.com")
	dial := func(result chan<- error) {
		_, err := h.dial(t, addr, 443)
		result <- err
	}
	for _, allow := range []bool{true, false} {
		result := make(chan error)
		go dial(result)
		answer <- Verdict{Allow: allow}
		if err := <-result; (err == nil) != allow || !allow && !looksRefused(err) {
			t.Errorf("allow %v: got %v", allow, err)
		}
	}
	// The segment ends while the question is open: everything ends, the policy's call as well.
	result := make(chan error)
	go dial(result)
	waitFor(t, func() bool { return h.Stats().Pending == 1 })
	h.Close()
	h.guest.Close()
	<-result
}

// waitFor polls for what no event tells.
func waitFor(t testing.TB, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited in vain")
		}
	}
}

func TestHalfCloseAndLargeTransfers(t *testing.T) {
	const size = 8 << 20
	data := make([]byte, size)
	src := rand.NewChaCha8([32]byte{1})
	src.Read(data)
	want := sha256.Sum256(data)

	type result struct {
		sum [32]byte
		err error
	}
	host := make(chan result, 1)
	h := newHarness(t, Config{
		Policy: allowAll,
		Handler: func(c net.Conn, _ Request) {
			// Reads to the end of the guest's half, and only then writes its own.
			b, err := io.ReadAll(c)
			host <- result{sha256.Sum256(b), err}
			c.Write(data)
			c.(interface{ CloseWrite() error }).CloseWrite()
			io.Copy(io.Discard, c)
		},
	})
	c := h.mustDial(t, h.mustAssign(t, "example.com"), 80).(*gonet.TCPConn)
	if _, err := c.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := c.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if r := <-host; r.err != nil || r.sum != want {
		t.Errorf("guest to host: %v, equal %v", r.err, r.sum == want)
	}
	b, err := io.ReadAll(c)
	if err != nil || sha256.Sum256(b) != want {
		t.Errorf("host to guest: %v, %d bytes", err, len(b))
	}
}

// Both directions at once, with readers that start late, so that windows close and open again.
func TestTransfersInBothDirections(t *testing.T) {
	const size = 4 << 20
	h := newHarness(t, Config{})
	l, err := h.guest.Listen(7000)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var wg sync.WaitGroup
	pump := func(c net.Conn) {
		defer wg.Done()
		var writes sync.WaitGroup
		writes.Go(func() {
			chunk := bytes.Repeat([]byte("0123456789abcdef"), 4096)
			for n := 0; n < size; n += len(chunk) {
				if _, err := c.Write(chunk); err != nil {
					t.Error(err)
					return
				}
			}
			c.(interface{ CloseWrite() error }).CloseWrite()
		})
		n, err := io.Copy(io.Discard, c)
		if n != size || err != nil {
			t.Errorf("read %d bytes, %v", n, err)
		}
		writes.Wait()
		c.Close()
	}
	wg.Add(2)
	go func() {
		c, err := l.Accept()
		if err != nil {
			t.Error(err)
			wg.Done()
			return
		}
		pump(c)
	}()
	c, err := h.Dial(testContext(t), 7000)
	if err != nil {
		t.Fatal(err)
	}
	pump(c)
	wg.Wait()
}

func TestDial(t *testing.T) {
	h := newHarness(t, Config{})
	if _, err := h.Dial(testContext(t), 22); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("a closed port: %v", err)
	}
	l, err := h.guest.Listen(22)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				io.WriteString(c, "from "+c.RemoteAddr().(*net.TCPAddr).IP.String())
				c.Close()
			}()
		}
	}()
	for range 50 {
		c, err := h.Dial(testContext(t), 22)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(c)
		if string(b) != "from 192.168.127.1" || err != nil {
			t.Errorf("got %q, %v", b, err)
		}
		c.Close()
	}
	if n := h.Stats().Open; n != 0 {
		t.Errorf("%d connections are left", n)
	}
}

func TestDialWaitsForAGuestThatBoots(t *testing.T) {
	s, err := New(Config{GuestMAC: testMAC})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	host, nic := netstacktest.Pipe()
	dialled := make(chan error, 1)
	go func() {
		c, err := s.Dial(testContext(t), 22)
		if err == nil {
			c.Close()
		}
		dialled <- err
	}()
	// First there is no card, then one that nobody reads, then a guest.
	if err := s.Attach(host); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return s.Stats().FramesOut >= 3 }) // SYNs
	g, err := netstacktest.NewGuest(nic, testMAC)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	l, err := g.Listen(22)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := <-dialled; err != nil && !errors.Is(err, syscall.ECONNREFUSED) { // refused: between the stack and the listener
		t.Error(err)
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	s, err := New(Config{GuestMAC: testMAC})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan error, 1)
	go func() {
		_, err := s.Dial(ctx, 22)
		done <- err
	}()
	cancel(nil)
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	go func() {
		_, err := s.Dial(context.Background(), 22)
		done <- err
	}()
	waitFor(t, func() bool { return s.Stats().Lost > 0 }) // a SYN that found no card
	s.Close()
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func TestListen(t *testing.T) {
	h := newHarness(t, Config{})
	l, err := h.Listen(2000)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Listen(2000); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a second listener: %v", err)
	}
	if _, err := h.Listen(53); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("the DNS port: %v", err)
	}
	if got := l.Addr().String(); got != "192.168.127.1:2000" {
		t.Errorf("got %s", got)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); io.Copy(c, c) }()
		}
	}()
	roundTrip(t, h.mustDial(t, "192.168.127.1", 2000), "private")
	// The port belongs to the gateway's address, not to every address.
	if _, err := h.dial(t, "203.0.113.1", 2000); !looksRefused(err) {
		t.Errorf("another address: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := h.dial(t, "192.168.127.1", 2000); !looksRefused(err) {
		t.Errorf("after Close: %v", err)
	}
	if l, err = h.Listen(2000); err != nil {
		t.Errorf("listen again: %v", err)
	}
}

func TestConnKeepsTheContractOfNet(t *testing.T) {
	conns := make(chan net.Conn)
	hold := make(chan struct{})
	defer close(hold)
	h := newHarness(t, Config{Policy: allowAll, Handler: func(c net.Conn, _ Request) {
		conns <- c
		<-hold
	}})
	addr := h.mustAssign(t, "example.com")

	// Close unblocks a Read, and then everything says ErrClosed.
	h.mustDial(t, addr, 1)
	c := <-conns
	read := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1))
		read <- err
	}()
	c.Close()
	if err := <-read; !errors.Is(err, net.ErrClosed) {
		t.Errorf("a Read that was under way: %v", err)
	}
	if _, err := c.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("write: %v", err)
	}
	if err := c.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("close: %v", err)
	}

	// The same for a Write that waits for a guest that does not read.
	h.mustDial(t, addr, 4)
	c = <-conns
	wrote := make(chan error, 1)
	started := make(chan struct{})
	go func() {
		b := make([]byte, 1<<20)
		for first := true; ; first = false {
			if _, err := c.Write(b); err != nil {
				wrote <- err
				return
			}
			if first {
				close(started)
			}
		}
	}()
	<-started
	c.Close()
	if err := <-wrote; !errors.Is(err, net.ErrClosed) {
		t.Errorf("a Write that was under way: %v", err)
	}

	// Reset is seen by the guest as one.
	g := h.mustDial(t, addr, 2)
	c = <-conns
	if err := c.(*Conn).Reset(); err != nil {
		t.Error(err)
	}
	if _, err := g.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("the guest reads %v", err)
	}

	// Deadlines are timeouts.
	h.mustDial(t, addr, 3)
	c = <-conns
	c.SetReadDeadline(time.Now().Add(-time.Second))
	var timeout net.Error
	if _, err := c.Read(make([]byte, 1)); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("got %v", err)
	}
}
