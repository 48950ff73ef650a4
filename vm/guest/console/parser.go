package console

import (
	"bytes"
	"slices"
	"strconv"
)

// kind says who gets a piece of a program's output.
type kind int

const (
	// plain goes to every client, and is kept for those that come later.
	plain kind = iota
	// once goes to the client in use only and is never kept: what asks the terminal for an answer (the answer
	// would be typed into the program a second time), what acts outside the screen (clipboard, notifications, printer),
	// and what was cut or malformed.
	once
)

// Limits of sequences that are kept whole, in bytes. What is longer is passed on in parts as once.
const (
	maxControl = 256
	maxString  = 4096
)

type state int

const (
	ground state = iota
	escape
	escapeInter // ESC and intermediate bytes
	csi
	str    // OSC, DCS, SOS, PM, APC
	strEsc // ESC within a string: its end, if a backslash follows
)

const (
	esc = 0x1b
	bel = 0x07
	enq = 0x05
	can = 0x18
	sub = 0x1a
)

// parser splits terminal output (ECMA-48) into pieces with a kind, and remembers the modes that a new client
// has to be put into. Pieces are whole sequences: one that is incomplete is held until its end arrives. 8-bit controls are not known;
// in UTF-8 their bytes are parts of characters.
type parser struct {
	state  state
	buf    []byte // the sequence so far, from its ESC on
	cut    bool   // the string was too long; its parts are passed on as they come
	screen screen
	erased bool // a piece asked to forget what was printed before; see [parser.takeErased]
}

// feed gives each piece of b to emit, which must not keep it.
func (p *parser) feed(b []byte, emit func(piece []byte, k kind)) {
	for len(b) > 0 {
		if p.state == ground {
			n := textLen(b)
			if n > 0 {
				emit(b[:n], plain)
				b = b[n:]
				continue
			}
			if b[0] == enq {
				emit(b[:1], once)
				b = b[1:]
				continue
			}
			p.state, p.buf = escape, append(p.buf[:0], esc)
			b = b[1:]
			continue
		}
		p.step(b[0], emit)
		b = b[1:]
	}
}

// textLen is how many bytes at the start of b are text or controls without a sequence.
func textLen(b []byte) int {
	if i := bytes.IndexByte(b, esc); i >= 0 {
		b = b[:i]
	}
	if i := bytes.IndexByte(b, enq); i >= 0 {
		b = b[:i]
	}
	return len(b)
}

// step takes one byte within a sequence.
func (p *parser) step(c byte, emit func([]byte, kind)) {
	switch {
	case c == can || c == sub: // cancel any sequence
		p.buf = append(p.buf, c)
		p.abort(emit)
		return
	case c == esc && p.state != str && p.state != strEsc: // begins anew
		p.abort(emit)
		p.state, p.buf = escape, append(p.buf[:0], esc)
		return
	case c < 0x20 && p.state != str && p.state != strEsc: // executed in the middle of it
		emit([]byte{c}, kindOfControl(c))
		return
	}
	p.buf = append(p.buf, c)
	switch p.state {
	case escape:
		switch {
		case c == '[':
			p.state = csi
		case c == ']', c == 'P', c == 'X', c == '^', c == '_':
			p.state, p.cut = str, false
		case c >= 0x20 && c <= 0x2f:
			p.state = escapeInter
		default:
			p.finish(emit)
		}
	case escapeInter:
		if c < 0x20 || c > 0x2f {
			p.finish(emit)
		}
	case csi:
		switch {
		case c >= 0x40 && c <= 0x7e:
			p.finish(emit)
		case c >= 0x7f:
			p.abort(emit)
		}
	case str:
		switch {
		case c == esc:
			p.state = strEsc
		case c == bel && p.buf[1] == ']': // xterm's other end of an OSC
			p.finish(emit)
		}
	case strEsc:
		if c == '\\' {
			p.finish(emit)
			return
		}
		// Not its end: the string was given up, and this ESC begins another sequence.
		p.buf = p.buf[:len(p.buf)-2]
		p.abort(emit)
		p.state, p.buf = escape, append(p.buf[:0], esc)
		p.step(c, emit)
		return
	}
	if p.state == str && len(p.buf) > maxString {
		// Keep the two bytes that say what it is.
		piece := p.buf
		if p.cut {
			piece = piece[2:]
		}
		emit(piece, once)
		p.cut, p.buf = true, p.buf[:2]
	}
	if p.state != ground && p.state != str && p.state != strEsc && len(p.buf) > maxControl {
		p.abort(emit)
	}
}

func kindOfControl(c byte) kind {
	if c == enq {
		return once
	}
	return plain
}

// abort ends a sequence that is none. The client in use sees the same bytes as it would without us.
func (p *parser) abort(emit func([]byte, kind)) {
	piece := p.buf
	if p.cut {
		piece = piece[2:]
	}
	p.state, p.cut = ground, false
	if len(piece) > 0 {
		emit(piece, once)
	}
}

// finish ends a complete sequence.
func (p *parser) finish(emit func([]byte, kind)) {
	seq, cut := p.buf, p.cut
	p.state, p.cut = ground, false
	if cut {
		emit(seq[2:], once)
		return
	}
	k := once
	switch seq[1] {
	case '[':
		k = p.csi(seq)
	case ']':
		k = kindOfOSC(seq)
	case 'P', 'X', '^', '_', 'Z': // strings of which we know nothing; DECID asks
	default:
		k = plain
		switch {
		case len(seq) == 2 && seq[1] == 'c': // RIS
			p.screen = screen{}
			p.erased = true
		case len(seq) == 2 && (seq[1] == '=' || seq[1] == '>'):
			p.screen.keypad = seq[1] == '='
		}
	}
	emit(seq, k)
}

// csi decides about a control sequence: ESC [, perhaps one of <=>?, parameters, intermediate bytes, a final byte.
func (p *parser) csi(seq []byte) kind {
	body, final := seq[2:len(seq)-1], seq[len(seq)-1]
	var private byte
	if len(body) > 0 && body[0] >= '<' && body[0] <= '?' {
		private, body = body[0], body[1:]
	}
	i := bytes.IndexFunc(body, func(r rune) bool { return r < 0x30 })
	inter := []byte(nil)
	if i >= 0 {
		body, inter = body[:i], body[i:]
	}
	switch {
	case len(inter) > 0:
		switch {
		case string(inter) == "!" && final == 'p': // DECSTR
			p.screen.softReset()
			return plain
		case string(inter) == " " && final == 'q': // DECSCUSR
			return plain
		}
		return once // DECRQM, DECRQPSR, DECRQCRA, DECRQLP and others that ask; rectangles, which are rare
	case final == 'c', final == 'x', final == 'i', final == 't': // DA, DECREQTPARM, MC, window operations
		return once
	case final == 'n' && private != '>': // DSR
		return once
	case final == 'q' && private != 0: // XTVERSION
		return once
	case private == '?' && (final == 'u' || final == 'S' || final == 'm' || final == 'g'): // queries of kitty and xterm
		return once
	case private == '?' && (final == 'h' || final == 'l'):
		for _, n := range params(body) {
			p.screen.set(n, final == 'h')
		}
	case final == 'u' && private != 0:
		p.screen.kitty(private, params(body))
	case final == 'm' && private == '>':
		p.screen.otherKeys(params(body))
	case final == 'J' && private == 0 && slices.Contains(params(body), 3): // forget the scrollback
		p.erased = true
	}
	return plain
}

// takeErased reports once whether the output so far is to be forgotten.
func (p *parser) takeErased() bool {
	e := p.erased
	p.erased = false
	return e
}

// kindOfOSC: titles, directories, links, prompt marks and colours may be repeated; everything else, and
// whatever asks, may not.
func kindOfOSC(seq []byte) kind {
	num, arg, _ := bytes.Cut(seq[2:], []byte(";"))
	n, err := strconv.Atoi(string(bytes.TrimRight(num, "\a\x1b\\")))
	if err != nil || bytes.IndexByte(seq, '\n') >= 0 { // history begins replays behind line feeds
		return once
	}
	switch n {
	case 0, 1, 2, 7, 8, 133:
		return plain
	case 4, 10, 11, 12, 104, 110, 111, 112:
		if bytes.IndexByte(arg, '?') < 0 {
			return plain
		}
	}
	return once
}

// params reads numeric parameters; what is missing or too large is 0.
func params(body []byte) []int {
	var out []int
	for _, f := range bytes.Split(body, []byte(";")) {
		n, err := strconv.Atoi(string(f))
		if err != nil || n > 1<<16 {
			n = 0
		}
		out = append(out, n)
		if len(out) == 32 {
			break
		}
	}
	return out
}
