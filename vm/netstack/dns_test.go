package netstack

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// query is a well-formed question.
func query(name string, typ dnsmessage.Type, change ...func(*dnsmessage.Message)) []byte {
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 4242, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: typ, Class: dnsmessage.ClassINET}},
	}
	for _, f := range change {
		f(&m)
	}
	b, err := m.Pack()
	if err != nil {
		panic(err)
	}
	return b
}

func parse(t testing.TB, b []byte) dnsmessage.Message {
	t.Helper()
	var m dnsmessage.Message
	if err := m.Unpack(b); err != nil {
		t.Fatalf("unpack %x: %v", b, err)
	}
	if !m.Response || m.ID != 4242 || m.Truncated || m.Authoritative || len(b) > 512 {
		t.Errorf("header %+v, %d bytes", m.Header, len(b))
	}
	return m
}

func ednsOption(version uint8) func(*dnsmessage.Message) {
	return func(m *dnsmessage.Message) {
		var h dnsmessage.ResourceHeader
		if err := h.SetEDNS0(4096, dnsmessage.RCodeSuccess, true); err != nil {
			panic(err)
		}
		h.TTL |= uint32(version) << 16
		m.Additionals = append(m.Additionals, dnsmessage.Resource{Header: h, Body: &dnsmessage.OPTResource{Options: []dnsmessage.Option{{Code: 10, Data: []byte("a cookie")}}}})
	}
}

func TestDNS(t *testing.T) {
	h := newHarness(t, Config{})
	known := h.mustAssign(t, "known.example")
	k := netip.MustParseAddr(known).As4()
	reverse := strings.Join(strings.Fields(strings.Join([]string{itoa(k[3]), itoa(k[2]), itoa(k[1]), itoa(k[0])}, " ")), ".") + ".in-addr.arpa."
	label := strings.Repeat("a", 63)
	longest := strings.Join([]string{label, label, label, strings.Repeat("b", 57) + ".com"}, ".") + "."
	const (
		ok       = dnsmessage.RCodeSuccess
		none     = dnsmessage.RCodeNameError
		formErr  = dnsmessage.RCodeFormatError
		refused  = dnsmessage.RCodeRefused
		notImpl  = dnsmessage.RCodeNotImplemented
		typeHTTP = dnsmessage.Type(65)
	)
	for _, tt := range []struct {
		name   string
		msg    []byte
		rcode  dnsmessage.RCode
		answer string // of the one record; "" none, "new" a synthetic address
	}{
		{"a known name", query("known.example.", dnsmessage.TypeA), ok, known},
		{"in another case", query("KNOWN.eXample.", dnsmessage.TypeA), ok, known},
		{"a new name", query("new.example.", dnsmessage.TypeA), ok, "new"},
		{"the longest name", query(longest, dnsmessage.TypeA), ok, "new"},
		{"an underscore", query("_acme-challenge.example.com.", dnsmessage.TypeA), ok, "new"},
		{"IPv6", query("known.example.", dnsmessage.TypeAAAA), ok, ""},
		{"IPv6 of a name that has nothing yet", query("v6.example.", dnsmessage.TypeAAAA), ok, ""},
		{"HTTPS", query("known.example.", typeHTTP), ok, ""},
		{"MX", query("known.example.", dnsmessage.TypeMX), ok, ""},
		{"TXT", query("known.example.", dnsmessage.TypeTXT), ok, ""},
		{"SRV", query("_http._tcp.known.example.", dnsmessage.TypeSRV), ok, ""},
		{"ANY", query("known.example.", dnsmessage.TypeALL), ok, ""},
		{"PTR", query(reverse, dnsmessage.TypePTR), ok, "known.example."},
		{"PTR in capitals", query(strings.ToUpper(reverse), dnsmessage.TypePTR), ok, "known.example."},
		{"an address, but not PTR", query(reverse, dnsmessage.TypeA), ok, ""},
		{"PTR of the gateway", query("1.127.168.192.in-addr.arpa.", dnsmessage.TypePTR), ok, GatewayName + "."},
		{"PTR of an address without a name", query("9.9.19.198.in-addr.arpa.", dnsmessage.TypePTR), none, ""},
		{"PTR of the internet", query("8.8.8.8.in-addr.arpa.", dnsmessage.TypePTR), none, ""},
		{"PTR of half an address", query("8.8.in-addr.arpa.", dnsmessage.TypePTR), none, ""},
		{"PTR of no address", query("8.8.8.300.in-addr.arpa.", dnsmessage.TypePTR), none, ""},
		{"PTR of IPv6", query("1.0.0.ip6.arpa.", dnsmessage.TypePTR), none, ""},
		{"the gateway", query("gateway.bromure.internal.", dnsmessage.TypeA), ok, "192.168.127.1"},
		{"the root", query(".", dnsmessage.TypeA), none, ""},
		{"one label", query("printer.", dnsmessage.TypeA), none, ""},
		{"localhost", query("localhost.", dnsmessage.TypeA), none, ""},
		{"below localhost", query("app.localhost.", dnsmessage.TypeA), none, ""},
		{"the local link", query("nas.local.", dnsmessage.TypeA), none, ""},
		{"an onion", query("abcdef.onion.", dnsmessage.TypeA), none, ""},
		{"an address as a name", query("10.0.0.1.", dnsmessage.TypeA), none, ""},
		{"a space", query("a b.example.", dnsmessage.TypeA), none, ""},
		{"an escape sequence", query("\x1b[31m.example.", dnsmessage.TypeA), none, ""},
		{"DNS over HTTPS", query("cloudflare-dns.com.", dnsmessage.TypeA), none, ""},
		{"DNS over HTTPS, below", query("Mozilla.Cloudflare-DNS.com.", dnsmessage.TypeAAAA), none, ""},
		{"the canary", query("use-application-dns.net.", dnsmessage.TypeA), none, ""},
		{"EDNS", query("known.example.", dnsmessage.TypeA, ednsOption(0)), ok, known},
		{"EDNS 1", query("known.example.", dnsmessage.TypeA, ednsOption(1)), rcodeBadVersion, ""},
		{"EDNS twice", query("known.example.", dnsmessage.TypeA, ednsOption(0), ednsOption(0)), formErr, ""},
		{"another class", query("known.example.", dnsmessage.TypeTXT, func(m *dnsmessage.Message) { m.Questions[0].Class = dnsmessage.ClassCHAOS }), refused, ""},
		{"an update", query("known.example.", dnsmessage.TypeSOA, func(m *dnsmessage.Message) { m.OpCode = 5 }), notImpl, ""},
		{"no question", query("known.example.", dnsmessage.TypeA, func(m *dnsmessage.Message) { m.Questions = nil }), formErr, ""},
		{"two questions", query("known.example.", dnsmessage.TypeA, func(m *dnsmessage.Message) { m.Questions = append(m.Questions, m.Questions[0]) }), formErr, ""},
		{"cut", query("known.example.", dnsmessage.TypeA)[:20], formErr, ""},
		{"cut before EDNS ends", query("known.example.", dnsmessage.TypeA, ednsOption(0))[:40], formErr, ""},
	} {
		out := h.answerDNS(tt.msg)
		if out == nil {
			t.Errorf("%s: no answer", tt.name)
			continue
		}
		m := parse(t, out)
		rcode := m.RCode
		edns := false
		for _, a := range m.Additionals {
			if a.Header.Type == dnsmessage.TypeOPT {
				edns = true
				rcode = a.Header.ExtendedRCode(rcode)
			}
		}
		if rcode != tt.rcode {
			t.Errorf("%s: %v, want %v", tt.name, rcode, tt.rcode)
		}
		if want := strings.HasPrefix(tt.name, "EDNS") && tt.rcode != formErr; edns != want && tt.name != "EDNS twice" {
			t.Errorf("%s: EDNS in the answer: %v", tt.name, edns)
		}
		got := ""
		for _, a := range m.Answers {
			if a.Header.TTL > 60 || a.Header.Name.String() != m.Questions[0].Name.String() {
				t.Errorf("%s: %+v", tt.name, a.Header)
			}
			switch b := a.Body.(type) {
			case *dnsmessage.AResource:
				got = netip.AddrFrom4(b.A).String()
			case *dnsmessage.PTRResource:
				got = b.PTR.String()
			}
		}
		if tt.answer == "new" {
			if a, err := netip.ParseAddr(got); err != nil || !synthetic.Contains(a) || got == known {
				t.Errorf("%s: got %q", tt.name, got)
			}
		} else if got != tt.answer {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.answer)
		}
		if negative := got == "" && (tt.rcode == ok || tt.rcode == none); negative {
			if len(m.Authorities) != 1 || m.Authorities[0].Header.Type != dnsmessage.TypeSOA || m.Authorities[0].Header.TTL > 60 {
				t.Errorf("%s: nothing says how long this may be kept: %+v", tt.name, m.Authorities)
			}
		}
	}
	r := h.refusal(t, func(r Refusal) bool { return r.Proto == DNS && r.Name == "mozilla.cloudflare-dns.com" })
	if r.Rule != RuleResolver || r.Addr.IsValid() {
		t.Errorf("got %+v", r)
	}
	for _, msg := range [][]byte{
		nil,
		[]byte("short"),
		query("known.example.", dnsmessage.TypeA, func(m *dnsmessage.Message) { m.Response = true }),
		append(query("known.example.", dnsmessage.TypeA), make([]byte, maxQuery)...),
	} {
		if out := h.answerDNS(msg); out != nil {
			t.Errorf("%x was answered", msg)
		}
	}
	// A question without its name cannot have been for IPv6 alone to give it an address.
	if _, ok := h.names.Lookup("v6.example"); ok {
		t.Error("a question for AAAA took an address")
	}
}

func itoa(b byte) string {
	return strings.TrimLeft(string([]byte{'0' + b/100, '0' + b/10%10}), "0") + string(rune('0'+b%10))
}

// Whatever the address: the guest cannot choose another resolver.
func TestDNSAtEveryAddress(t *testing.T) {
	h := newHarness(t, Config{})
	for _, server := range []string{"192.168.127.1", "8.8.8.8", "203.0.113.53", "192.168.127.9"} {
		to := netip.AddrPortFrom(netip.MustParseAddr(server), 53)
		u, err := h.guest.DialUDP(to)
		if err != nil {
			t.Fatal(err)
		}
		u.SetDeadline(time.Now().Add(patience))
		if _, err := u.Write(query("over-udp.example.", dnsmessage.TypeA)); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 1500)
		n, err := u.Read(b)
		if err != nil {
			t.Fatalf("%s: %v", server, err)
		}
		u.Close()
		first := parse(t, b[:n]).Answers[0].Body.(*dnsmessage.AResource).A

		c := h.mustDial(t, server, 53)
		for range 3 { // a connection serves more than one
			second := askTCP(t, c, query("over-udp.example.", dnsmessage.TypeA)).Answers[0].Body.(*dnsmessage.AResource).A
			if first != second {
				t.Errorf("%s: %v by UDP and %v by TCP", server, first, second)
			}
		}
		c.Close()
	}
	// A message that is too long, or no message, ends the connection.
	for _, msg := range [][]byte{{0xff, 0xff, 0}, {0, 3, 1, 2, 3}} {
		c := h.mustDial(t, "192.168.127.1", 53)
		c.SetDeadline(time.Now().Add(patience))
		c.Write(msg)
		if n, err := c.Read(make([]byte, 10)); err == nil {
			t.Errorf("%x: %d bytes came back", msg, n)
		}
	}
	if st := h.Stats(); st.Refused != 0 || st.Admitted != 0 || st.Names != 1 {
		t.Errorf("got %+v", st)
	}
}

func askTCP(t testing.TB, c net.Conn, q []byte) dnsmessage.Message {
	t.Helper()
	c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(q))), q...)); err != nil {
		t.Fatal(err)
	}
	var n [2]byte
	if _, err := io.ReadFull(c, n[:]); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, binary.BigEndian.Uint16(n[:]))
	if _, err := io.ReadFull(c, b); err != nil {
		t.Fatal(err)
	}
	return parse(t, b)
}

func TestDNSSaysWhenNoAddressIsLeft(t *testing.T) {
	h := newHarness(t, Config{Names: newNames(1)})
	release := h.names.hold(netip.MustParseAddr(h.mustAssign(t, "a.example")))
	if m := parse(t, h.answerDNS(query("b.example.", dnsmessage.TypeA))); m.RCode != dnsmessage.RCodeServerFailure {
		t.Errorf("got %v", m.RCode)
	}
	h.refusal(t, func(r Refusal) bool { return r.Rule == RuleNames && r.Name == "b.example" })
	release()
	if m := parse(t, h.answerDNS(query("b.example.", dnsmessage.TypeA))); m.RCode != dnsmessage.RCodeSuccess {
		t.Errorf("got %v", m.RCode)
	}
}

func TestResolverListIsNormal(t *testing.T) {
	if n := len(resolverSet()); n < 100 {
		t.Errorf("only %d entries", n)
	}
	for e := range resolverSet() {
		if _, err := netip.ParseAddr(e); err == nil {
			continue
		}
		if n, ok := NormalName(e); !ok || n != e {
			t.Errorf("%q is neither a normal name nor an address", e)
		}
	}
	for name, want := range map[string]bool{
		"dns.google": true, "a.b.dns.google": true, "google": false, "notdns.google": false,
		"xdns.google": false, "example.com": false, "1.1.1.1": true, "11.1.1.1": false, "": false,
	} {
		if isResolver(name) != want {
			t.Errorf("%q: want %v", name, want)
		}
	}
}

func FuzzDNS(f *testing.F) {
	f.Add(query("known.example.", dnsmessage.TypeA))
	f.Add(query("known.example.", dnsmessage.TypeA, ednsOption(0)))
	f.Add(query("4.3.18.198.in-addr.arpa.", dnsmessage.TypePTR))
	f.Add(query("a.b.", dnsmessage.TypeTXT)[:15])
	s, err := New(Config{GuestMAC: testMAC, Names: newNames(100)})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { s.Close() })
	f.Fuzz(func(t *testing.T, b []byte) {
		out := s.answerDNS(b)
		if out == nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(out); err != nil || !m.Response || len(out) > 512 || m.ID != binary.BigEndian.Uint16(b) {
			t.Errorf("answered %x with %x (%v)", b, out, err)
		}
		for _, q := range m.Answers {
			if a, ok := q.Body.(*dnsmessage.AResource); ok {
				name, ok := s.names.Reverse(netip.AddrFrom4(a.A))
				if normal, valid := NormalName(q.Header.Name.String()); !ok || !valid || normal != name {
					t.Errorf("%q got %v, which is %q", q.Header.Name.String(), a.A, name)
				}
			}
		}
	})
}
