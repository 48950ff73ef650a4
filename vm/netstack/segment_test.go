package netstack

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"bromure.io/tui/vm/netstack/netstacktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	testMAC  = "02:aa:bb:cc:dd:ee"
	otherMAC = "02:aa:bb:cc:dd:ef"

	// patience bounds what a test waits for; nothing should come near it.
	patience = 30 * time.Second
)

// harness is a segment with a guest behind it.
type harness struct {
	*Segment
	guest *netstacktest.Guest

	mu       sync.Mutex
	refusals []Refusal
	changed  chan struct{} // has room for one
}

// newHarness starts both; cfg needs no MAC.
func newHarness(t testing.TB, cfg Config) *harness {
	t.Helper()
	h := &harness{changed: make(chan struct{}, 1)}
	cfg.GuestMAC = testMAC
	cfg.Refused = func(r Refusal) {
		h.mu.Lock()
		h.refusals = append(h.refusals, r)
		h.mu.Unlock()
		select {
		case h.changed <- struct{}{}:
		default:
		}
	}
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	h.Segment = s
	t.Cleanup(func() { s.Close() })
	host, nic := netstacktest.Pipe()
	if h.guest, err = netstacktest.NewGuest(nic, testMAC); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.guest.Close() })
	if err := s.Attach(host); err != nil {
		t.Fatal(err)
	}
	return h
}

// refusal waits for one that ok likes.
func (h *harness) refusal(t testing.TB, ok func(Refusal) bool) Refusal {
	t.Helper()
	deadline := time.After(patience)
	for {
		h.mu.Lock()
		for _, r := range h.refusals {
			if ok(r) {
				h.mu.Unlock()
				return r
			}
		}
		h.mu.Unlock()
		select {
		case <-h.changed:
		case <-deadline:
			h.mu.Lock()
			defer h.mu.Unlock()
			t.Fatalf("no such refusal among %+v", h.refusals)
		}
	}
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// dial connects from the guest.
func (h *harness) dial(t testing.TB, addr string, port uint16) (net.Conn, error) {
	t.Helper()
	c, err := h.guest.Dial(testContext(t), netip.AddrPortFrom(netip.MustParseAddr(addr), port))
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { c.Close() })
	return c, nil
}

func (h *harness) mustDial(t testing.TB, addr string, port uint16) net.Conn {
	t.Helper()
	c, err := h.dial(t, addr, port)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// mustAssign gives a name its address, as a lookup does.
func (h *harness) mustAssign(t testing.TB, name string) string {
	t.Helper()
	a, err := h.names.Assign(name)
	if err != nil {
		t.Fatal(err)
	}
	return a.String()
}

func looksRefused(err error) bool { return err != nil && strings.Contains(err.Error(), "refused") }

// allowAll admits everything.
var allowAll = PolicyFunc(func(context.Context, Request) Verdict { return Verdict{Allow: true, Rule: "test"} })

func echo(c net.Conn, _ Request) { io.Copy(c, c) }

// roundTrip writes text and reads it back.
func roundTrip(t testing.TB, c net.Conn, text string) {
	t.Helper()
	c.SetDeadline(time.Now().Add(patience))
	defer c.SetDeadline(time.Time{})
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, len(text))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != text {
		t.Fatalf("got %q (%v), want %q back", b, err, text)
	}
}

func TestNewChecksItsConfig(t *testing.T) {
	for _, cfg := range []Config{
		{},
		{GuestMAC: "not a MAC"},
		{GuestMAC: "01:00:5e:00:00:01"}, // multicast
		{GuestMAC: "02:00:00:00:00:00:00:01"},
		{GuestMAC: testMAC, MTU: 100},
		{GuestMAC: testMAC, MTU: 65536},
		{GuestMAC: testMAC, Policy: allowAll},
	} {
		if s, err := New(cfg); err == nil {
			s.Close()
			t.Errorf("%+v was taken", cfg)
		}
	}
}

func TestClosedByDefault(t *testing.T) {
	h := newHarness(t, Config{})
	addr := h.mustAssign(t, "example.com")
	if _, err := h.dial(t, addr, 443); !looksRefused(err) {
		t.Fatalf("got %v, want a refused connection", err)
	}
	r := h.refusal(t, func(r Refusal) bool { return r.Name == "example.com" })
	if r.Proto != TCP || r.Port != 443 || r.Rule != RuleClosed || r.Reason == "" || r.Count != 1 || r.Time.IsZero() || r.Addr.String() != addr {
		t.Errorf("got %+v", r)
	}
	if st := h.Stats(); st.Refused != 1 || st.Admitted != 0 || st.Open != 0 || st.Pending != 0 {
		t.Errorf("got %+v", st)
	}
}

func TestRules(t *testing.T) {
	asked := make(chan Request, 100)
	h := newHarness(t, Config{
		Handler: echo,
		Policy: PolicyFunc(func(_ context.Context, r Request) Verdict {
			asked <- r
			switch r.Name {
			case "silent.example":
				return Verdict{}
			}
			return Verdict{Rule: "my-rule", Reason: "because"}
		}),
	})
	example := h.mustAssign(t, "example.com")
	silent := h.mustAssign(t, "silent.example")
	doh := h.mustAssign(t, "dns.google")
	below := h.mustAssign(t, "abc.cloudflare-dns.com")
	for _, tt := range []struct {
		addr  string
		port  uint16
		rule  string
		name  string // in the refusal
		asked bool
	}{
		{example, 443, "my-rule", "example.com", true},
		{silent, 22, RulePolicy, "silent.example", true},
		{"203.0.113.9", 443, "my-rule", "", true},
		{"10.0.0.1", 80, "my-rule", "", true},
		{"169.254.169.254", 80, "my-rule", "", true},
		{"192.168.127.1", 80, RuleSegment, "", false},
		{"192.168.127.77", 80, RuleSegment, "", false},
		{"198.19.200.200", 443, RuleUnknown, "", false},
		{"198.18.0.0", 443, RuleUnknown, "", false},
		{doh, 443, RuleResolver, "dns.google", false},
		{below, 443, RuleResolver, "abc.cloudflare-dns.com", false},
		{"1.1.1.1", 443, RuleResolver, "", false},
		{example, 853, RuleResolver, "example.com", false},
		{"0.0.0.1", 80, RuleReserved, "", false},
		{"240.0.0.1", 80, RuleReserved, "", false},
	} {
		if _, err := h.dial(t, tt.addr, tt.port); !looksRefused(err) {
			t.Errorf("%s port %d: got %v, want a refused connection", tt.addr, tt.port, err)
			continue
		}
		r := h.refusal(t, func(r Refusal) bool { return r.Addr.String() == tt.addr && r.Port == tt.port })
		if r.Rule != tt.rule || r.Name != tt.name || r.Reason == "" {
			t.Errorf("%s port %d: got %+v", tt.addr, tt.port, r)
		}
		select {
		case q := <-asked:
			if !tt.asked {
				t.Errorf("%s port %d: the policy was asked", tt.addr, tt.port)
			}
			if literal := tt.name == ""; q.Literal != literal || literal && q.Name != tt.addr {
				t.Errorf("%s port %d: the policy was asked about %+v", tt.addr, tt.port, q)
			}
		default:
			if tt.asked {
				t.Errorf("%s port %d: the policy was not asked", tt.addr, tt.port)
			}
		}
	}
}

func TestCloseIsFinal(t *testing.T) {
	h := newHarness(t, Config{Policy: allowAll, Handler: echo})
	c := h.mustDial(t, h.mustAssign(t, "example.com"), 80)
	roundTrip(t, c, "up") // both ends have it open
	l, err := h.Listen(1000)
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan error, 1)
	go func() {
		_, err := l.Accept()
		accepted <- err
	}()
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-accepted; !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept: %v", err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("the connection lives on")
	}
	if _, err := h.Dial(testContext(t), 22); !errors.Is(err, ErrClosed) {
		t.Errorf("dial: %v", err)
	}
	host, nic := netstacktest.Pipe()
	defer nic.Close()
	if err := h.Attach(host); !errors.Is(err, ErrClosed) {
		t.Errorf("attach: %v", err)
	}
	if _, err := h.Listen(1001); !errors.Is(err, ErrClosed) {
		t.Errorf("listen: %v", err)
	}
}
