package netstack

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip/header"

	"bromure.io/tui/vm/netstack/netstacktest"
)

func TestRefusalsAreSummedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var reported []Refusal
		r := newRecorder(func(f Refusal) {
			mu.Lock()
			reported = append(reported, f)
			mu.Unlock()
		})
		take := func() []Refusal { // everything since the last call
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			out := reported
			reported = nil
			return out
		}
		total := func(rs []Refusal) (n int) {
			for _, f := range rs {
				n += f.Count
			}
			return n
		}
		a := Refusal{Proto: TCP, Name: "a.example", Port: 443, Rule: RuleClosed, Reason: "closed"}
		for range 1000 {
			r.add(a)
		}
		if got := take(); len(got) != 1 || got[0].Count != 1 || got[0].Name != "a.example" {
			t.Errorf("at once: %+v", got)
		}
		time.Sleep(summaryEvery)
		if got := take(); len(got) != 1 || got[0].Count != 999 {
			t.Errorf("after a window: %+v", got)
		}
		time.Sleep(2 * summaryEvery) // nothing happens: nothing is reported, and it is forgotten
		r.add(a)
		if got := take(); len(got) != 1 || got[0].Count != 1 {
			t.Errorf("later: %+v", got)
		}

		// A scan of all ports: the first ones are listed, the rest is a sum.
		for p := range 65536 {
			r.add(Refusal{Proto: TCP, Port: uint16(p), Addr: netip.MustParseAddr("192.0.2.1"), Rule: RuleClosed})
		}
		time.Sleep(summaryEvery)
		got := take()
		if len(got) > 2*maxDistinct+1 || total(got) != 65536 || got[len(got)-1].Rule != RuleMany {
			t.Errorf("%d reports of %d, the last %+v", len(got), total(got), got[len(got)-1])
		}

		// What is left is reported at the end, and nothing after it.
		r.add(a)
		r.add(a)
		r.close()
		r.add(a)
		r.close()
		if got := take(); total(got) != 2 {
			t.Errorf("at the end: %+v", got)
		}
	})
}

// A receiver that hangs costs neither memory nor the stack.
func TestSlowReceiverOfRefusals(t *testing.T) {
	hang := make(chan struct{})
	total := 0
	r := newRecorder(func(f Refusal) {
		<-hang
		total += f.Count
	})
	const n = 100_000
	for i := range n {
		r.add(Refusal{Name: fmt.Sprintf("%d.example", i%10_000)})
	}
	if len(r.known) > maxDistinct {
		t.Errorf("%d are kept", len(r.known))
	}
	close(hang)
	r.close()
	if total != n {
		t.Errorf("%d of %d were counted", total, n)
	}
}

// SYNs from every port while the policy never answers: what waits is bounded, the rest is refused at once.
func TestPendingConnectionsAreBounded(t *testing.T) {
	var asked atomic.Int32
	g := newRawGuest(t, Config{
		Limits:  Limits{Pending: 10},
		Handler: echo,
		Policy: PolicyFunc(func(ctx context.Context, _ Request) Verdict {
			asked.Add(1)
			<-ctx.Done()
			return Verdict{}
		}),
	})
	const flood = 2000
	resets := make(chan int)
	go func() {
		n := 0
		b := make([]byte, maxFrame)
		for n < flood-10 {
			if _, err := g.nic.Read(b); err != nil {
				break
			}
			if header.TCP(b[ethernetHeader+header.IPv4MinimumSize:]).Flags().Contains(header.TCPFlagRst) {
				n++
			}
		}
		resets <- n
	}()
	for i := range flood {
		g.send(t, fromGuest("203.0.113.1", protoTCP, synPacket(uint16(10_000+i), 80)))
	}
	if n := <-resets; n != flood-10 {
		t.Errorf("%d of %d were refused", n, flood-10)
	}
	// A guest that repeats a SYN is not refused for that.
	g.send(t, fromGuest("203.0.113.1", protoTCP, synPacket(10_000, 80)))
	g.ping(t)
	waitFor(t, func() bool { return asked.Load() == 10 })
	if st := g.Stats(); st.Pending != 10 {
		t.Errorf("got %+v", st)
	}
	g.refusal(t, func(r Refusal) bool { return r.Rule == RuleBusy })
}

// Half-open connections: the guest never completes a handshake.
func TestHalfOpenConnectionsAreBounded(t *testing.T) {
	g := newRawGuest(t, Config{Limits: Limits{Pending: 10}, Policy: allowAll, Handler: echo})
	go func() { // read everything
		b := make([]byte, maxFrame)
		for {
			if _, err := g.nic.Read(b); err != nil {
				return
			}
		}
	}()
	before := runtime.NumGoroutine()
	for i := range 2000 {
		g.send(t, fromGuest("203.0.113.1", protoTCP, synPacket(uint16(10_000+i), 80)))
	}
	waitFor(t, func() bool { return g.Stats().FramesIn == 2000 })
	if st := g.Stats(); st.Pending > 10 || st.Admitted != 0 {
		t.Errorf("got %+v", st)
	}
	if n := runtime.NumGoroutine() - before; n > 20 {
		t.Errorf("%d goroutines more", n)
	}
}

func TestOpenConnectionsAreBounded(t *testing.T) {
	hold := make(chan struct{})
	defer close(hold)
	h := newHarness(t, Config{Limits: Limits{Connections: 5}, Policy: allowAll, Handler: func(net.Conn, Request) { <-hold }})
	for i := range 5 {
		h.mustDial(t, "203.0.113.1", 80)
		waitFor(t, func() bool { return h.Stats().Open == i+1 })
	}
	if _, err := h.dial(t, "203.0.113.1", 80); !looksRefused(err) {
		t.Errorf("got %v", err)
	}
	h.refusal(t, func(r Refusal) bool { return r.Rule == RuleBusy })
	// Another segment is not touched by that.
	other := newHarness(t, Config{Limits: Limits{Connections: 5}, Policy: allowAll, Handler: echo})
	roundTrip(t, other.mustDial(t, "203.0.113.1", 80), "still fine")
}

// A guest that sends and never reads: what waits for it is bounded, and the rest of the segment goes on.
func TestGuestThatNeverReads(t *testing.T) {
	host, nic := netstacktest.Pipe()
	defer nic.Close()
	s, err := New(Config{GuestMAC: testMAC, Limits: Limits{Queue: 1 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	s.icmpRate = newBucket(1e9, 1e9)
	if err := s.Attach(host); err != nil {
		t.Fatal(err)
	}
	request := ethernetFrame("ff:ff:ff:ff:ff:ff", testMAC, typeARP, arpRequest(testMAC, "192.168.127.2", "192.168.127.1"))
	const n = 10_000
	for range n {
		if _, err := nic.Write(request); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, func() bool { return s.Stats().FramesIn == n })
	s.link.out.mu.Lock()
	waiting, bytes := len(s.link.out.frames), s.link.out.bytes
	s.link.out.mu.Unlock()
	if bytes > 1<<20 || waiting > (1<<20)/frameOverhead {
		t.Errorf("%d frames, %d bytes wait", waiting, bytes)
	}
	if s.Stats().Lost == 0 {
		t.Error("nothing was dropped")
	}
}

func TestICMPAnswersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBucket(icmpPerSecond, icmpBurst)
		count := func(n int) (ok int) {
			for range n {
				if b.take() {
					ok++
				}
			}
			return ok
		}
		if n := count(10_000); n != icmpBurst {
			t.Errorf("%d at once", n)
		}
		time.Sleep(100 * time.Millisecond)
		if n := count(10_000); n != icmpPerSecond/10 {
			t.Errorf("%d after 100 ms", n)
		}
		time.Sleep(time.Hour)
		if n := count(10_000); n != icmpBurst {
			t.Errorf("%d after an hour", n)
		}
	})
}

// FuzzFrames feeds whatever a guest may send, two frames at a time, since the second meets the state that the first left.
func FuzzFrames(f *testing.F) {
	seeds := [][]byte{
		fromGuest("192.168.127.1", protoICMP, echoRequest()),
		fromGuest("203.0.113.1", protoTCP, synPacket(1, 80)),
		fromGuest("192.168.127.1", protoTCP, synPacket(1, 1000)),
		fromGuest("203.0.113.1", protoUDP, udpPacket(53, query("a.example.", 1))),
		fromGuest("203.0.113.1", protoUDP, udpPacket(443, nil)),
		fromGuest("203.0.113.1", protoICMP, append([]byte{3, 4, 0, 0, 0, 0, 5, 0}, ipv4Packet("203.0.113.1", "192.168.127.2", protoTCP, synPacket(80, 1))...)),
		ethernetFrame("ff:ff:ff:ff:ff:ff", testMAC, typeARP, arpRequest(testMAC, "192.168.127.2", "192.168.127.1")),
		fromGuest("203.0.113.1", protoTCP, append(synPacket(2, 80), make([]byte, 2*smallFrame)...)),
		make([]byte, 14),
	}
	for _, s := range seeds {
		f.Add(s, seeds[1])
	}
	s, err := New(Config{GuestMAC: testMAC, Policy: allowAll, Handler: echo, Names: newNames(100), Limits: Limits{Pending: 4, Connections: 4}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { s.Close() })
	l, err := s.Listen(1000)
	if err != nil {
		f.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	host, nic := netstacktest.Pipe()
	f.Cleanup(func() { nic.Close() })
	if err := s.Attach(host); err != nil {
		f.Fatal(err)
	}
	go func() {
		b := make([]byte, maxFrame)
		for {
			if _, err := nic.Read(b); err != nil {
				return
			}
		}
	}()
	var sent uint64
	f.Fuzz(func(t *testing.T, a, b []byte) {
		// The addresses are right, so that the bytes behind them are looked at.
		for _, frame := range [][]byte{a, b} {
			if len(frame) >= ethernetHeader {
				frame = append([]byte(nil), frame...)
				copy(frame[6:12], mac(testMAC))
				if frame[0]&1 == 0 {
					copy(frame[0:6], mac(gatewayMAC))
				}
				if len(frame) >= ethernetHeader+header.IPv4MinimumSize && frame[12] == 8 && frame[13] == 0 {
					copy(frame[ethernetHeader+12:], netip.MustParseAddr("192.168.127.2").AsSlice())
				}
			}
			if _, err := nic.Write(frame); err != nil {
				t.Fatal(err)
			}
			sent++
		}
		for s.stats.framesIn.Load() < sent {
			runtime.Gosched()
		}
		if st := s.Stats(); st.Pending > 4 || st.Open > 8 || st.Names > 100 {
			t.Errorf("got %+v", st)
		}
	})
}
