package netstack

import (
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// GatewayName is the name of the gateway, for people in the guest.
const GatewayName = "gateway.bromure.internal"

const (
	// maxQuery bounds a DNS message that is looked at, in bytes: a question of any length with every extension in use.
	maxQuery = 4096

	// ttl is how long the guest may keep an answer, in seconds. An address stays the same while the machine lives; but after a
	// crash of the daemon the last names may be lost, and have to be asked for again.
	ttl = 10

	// negativeTTL is the same for "there is none" (RFC 2308).
	negativeTTL = 5

	// udpSize is what we say of ourselves in EDNS (RFC 6891), in bytes.
	udpSize = 1232

	// dnsIdle is how long a TCP connection to port 53 may be silent.
	dnsIdle = 10 * time.Second
)

// question is what was asked, as far as it matters.
type question struct {
	header dnsmessage.Header
	asked  dnsmessage.Question // the name in the case of the asker, which goes back (it may be a cookie)
	edns   bool
	ednsV  uint8
}

// answerDNS answers one message. nil means that it deserves no answer.
func (s *Segment) answerDNS(msg []byte) []byte {
	q, rcode, ok := parseQuery(msg)
	if !ok {
		s.stats.malformed.Add(1)
		return nil
	}
	s.stats.queries.Add(1)
	var records []dnsmessage.Resource
	if rcode == dnsmessage.RCodeSuccess {
		records, rcode = s.resolve(q.asked)
	}
	out, err := buildAnswer(q, rcode, records)
	if err != nil {
		s.stats.malformed.Add(1)
		return nil
	}
	return out
}

// parseQuery reads a message. ok is false when not even an error can be answered; rcode is success
// when there is one question that we understand.
func parseQuery(msg []byte) (q question, rcode dnsmessage.RCode, ok bool) {
	if len(msg) > maxQuery {
		return q, 0, false
	}
	var p dnsmessage.Parser
	h, err := p.Start(msg)
	if err != nil || h.Response {
		return q, 0, false
	}
	q.header = h
	if h.OpCode != 0 {
		return q, dnsmessage.RCodeNotImplemented, true
	}
	if q.asked, err = p.Question(); err != nil {
		return q, dnsmessage.RCodeFormatError, true
	}
	if _, err := p.Question(); !errors.Is(err, dnsmessage.ErrSectionDone) {
		return q, dnsmessage.RCodeFormatError, true // more than one is never used (RFC 9619)
	}
	if p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
		return q, dnsmessage.RCodeFormatError, true
	}
	for {
		r, err := p.AdditionalHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			break
		}
		if err != nil || p.SkipAdditional() != nil {
			return q, dnsmessage.RCodeFormatError, true
		}
		if r.Type != dnsmessage.TypeOPT {
			continue
		}
		if q.edns {
			return q, dnsmessage.RCodeFormatError, true
		}
		q.edns, q.ednsV = true, uint8(r.TTL>>16)
	}
	switch {
	case q.ednsV != 0:
		return q, rcodeBadVersion, true
	case q.asked.Class != dnsmessage.ClassINET:
		return q, dnsmessage.RCodeRefused, true
	}
	return q, dnsmessage.RCodeSuccess, true
}

// rcodeBadVersion needs the four more bits that EDNS has for it.
const rcodeBadVersion dnsmessage.RCode = 16

// resolve is the whole of our DNS: a name has an A record, an address a PTR record, and nothing has anything else.
func (s *Segment) resolve(q dnsmessage.Question) ([]dnsmessage.Resource, dnsmessage.RCode) {
	if addr, ok := reverseName(q.Name.String()); ok {
		return s.resolveAddr(q, addr)
	}
	name, ok := NormalName(q.Name.String())
	if !ok || isNowhere(name) {
		return nil, dnsmessage.RCodeNameError
	}
	if isResolver(name) {
		s.refuse(Refusal{Proto: DNS, Name: name, Rule: RuleResolver, Reason: "names are resolved by the workspace's own network, not by a public resolver"})
		return nil, dnsmessage.RCodeNameError
	}
	if q.Type != dnsmessage.TypeA {
		return nil, dnsmessage.RCodeSuccess
	}
	addr := s.gateway
	if name != GatewayName {
		var err error
		if addr, err = s.names.Assign(name); err != nil {
			s.refuse(Refusal{Proto: DNS, Name: name, Rule: RuleNames, Reason: "too many names were looked up since the workspace was started"})
			return nil, dnsmessage.RCodeServerFailure
		}
	}
	return []dnsmessage.Resource{{
		Header: dnsmessage.ResourceHeader{Name: q.Name, Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET, TTL: ttl},
		Body:   &dnsmessage.AResource{A: addr.As4()},
	}}, dnsmessage.RCodeSuccess
}

func (s *Segment) resolveAddr(q dnsmessage.Question, addr netip.Addr) ([]dnsmessage.Resource, dnsmessage.RCode) {
	name, ok := GatewayName, addr == s.gateway
	if !ok {
		name, ok = s.names.Reverse(addr)
	}
	if !ok {
		return nil, dnsmessage.RCodeNameError
	}
	if q.Type != dnsmessage.TypePTR {
		return nil, dnsmessage.RCodeSuccess
	}
	ptr, err := dnsmessage.NewName(name + ".")
	if err != nil {
		return nil, dnsmessage.RCodeServerFailure
	}
	return []dnsmessage.Resource{{
		Header: dnsmessage.ResourceHeader{Name: q.Name, Type: dnsmessage.TypePTR, Class: dnsmessage.ClassINET, TTL: ttl},
		Body:   &dnsmessage.PTRResource{PTR: ptr},
	}}, dnsmessage.RCodeSuccess
}

// reverseName reads "4.3.2.1.in-addr.arpa." (RFC 1035, section 3.5).
func reverseName(name string) (netip.Addr, bool) {
	const suffix = ".in-addr.arpa"
	name = strings.TrimSuffix(name, ".")
	if len(name) <= len(suffix) || !strings.EqualFold(name[len(name)-len(suffix):], suffix) {
		return netip.Addr{}, false
	}
	parts := strings.Split(name[:len(name)-len(suffix)], ".")
	if len(parts) != 4 {
		return netip.Addr{}, false
	}
	var b [4]byte
	for i, p := range parts {
		v, err := strconv.ParseUint(p, 10, 8)
		if err != nil || len(p) > 1 && p[0] == '0' {
			return netip.Addr{}, false
		}
		b[3-i] = byte(v)
	}
	return netip.AddrFrom4(b), true
}

// buildAnswer writes the answer. It is never longer than the 512 bytes that every client takes: the longest has
// one name of 255 bytes as its question or as its answer, not both.
func buildAnswer(q question, rcode dnsmessage.RCode, records []dnsmessage.Resource) ([]byte, error) {
	b := dnsmessage.NewBuilder(make([]byte, 0, 512), dnsmessage.Header{
		ID:                 q.header.ID,
		Response:           true,
		OpCode:             q.header.OpCode,
		RecursionDesired:   q.header.RecursionDesired,
		RecursionAvailable: true,
		RCode:              rcode & 0xf,
	})
	b.EnableCompression()
	if q.asked.Name.Length > 0 {
		if err := errors.Join(b.StartQuestions(), b.Question(q.asked)); err != nil {
			return nil, err
		}
	}
	if err := b.StartAnswers(); err != nil {
		return nil, err
	}
	for _, r := range records {
		var err error
		switch body := r.Body.(type) {
		case *dnsmessage.AResource:
			err = b.AResource(r.Header, *body)
		case *dnsmessage.PTRResource:
			err = b.PTRResource(r.Header, *body)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(records) == 0 && (rcode == dnsmessage.RCodeSuccess || rcode == dnsmessage.RCodeNameError) {
		if err := addSOA(&b, q.asked.Name, rcode); err != nil {
			return nil, err
		}
	}
	if q.edns {
		var h dnsmessage.ResourceHeader
		if err := errors.Join(b.StartAdditionals(), h.SetEDNS0(udpSize, rcode, false)); err != nil {
			return nil, err
		}
		if err := b.OPTResource(h, dnsmessage.OPTResource{}); err != nil {
			return nil, err
		}
	}
	return b.Finish()
}

// addSOA says how long "there is none" may be kept: the zone is the name itself where it exists, else the root.
func addSOA(b *dnsmessage.Builder, name dnsmessage.Name, rcode dnsmessage.RCode) error {
	root := dnsmessage.MustNewName(".")
	if rcode == dnsmessage.RCodeNameError {
		name = root
	}
	if err := b.StartAuthorities(); err != nil {
		return err
	}
	return b.SOAResource(
		dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET, TTL: negativeTTL},
		dnsmessage.SOAResource{NS: root, MBox: root, Serial: 1, Refresh: 3600, Retry: 600, Expire: 86400, MinTTL: negativeTTL},
	)
}

// serveDNS answers messages on a TCP connection, each with its length before it (RFC 1035, section 4.2.2),
// until the guest has no more.
func (s *Segment) serveDNS(conn *Conn) {
	var buf [2 + maxQuery]byte
	for {
		if conn.SetDeadline(time.Now().Add(dnsIdle)) != nil {
			return
		}
		if _, err := io.ReadFull(conn, buf[:2]); err != nil {
			return
		}
		n := int(binary.BigEndian.Uint16(buf[:2]))
		if n > maxQuery {
			_ = conn.Reset()
			return
		}
		if _, err := io.ReadFull(conn, buf[2:2+n]); err != nil {
			return
		}
		answer := s.answerDNS(buf[2 : 2+n])
		if answer == nil {
			_ = conn.Reset()
			return
		}
		out := binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(answer)), uint16(len(answer)))
		if _, err := conn.Write(append(out, answer...)); err != nil {
			return
		}
	}
}
