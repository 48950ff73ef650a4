package console

import "strconv"

// modeNumbers are the DEC private modes that a new client is put into. Others either do not outlive a
// repaint (synchronised output) or are nobody's business (132 columns).
var modeNumbers = [...]int{
	1,          // cursor keys
	5,          // reverse video
	7,          // wrap at the margin
	25,         // cursor visible
	9,          // mouse, as X10
	1000,       // mouse buttons
	1002, 1003, // mouse motion
	1004,                   // focus
	1005, 1006, 1015, 1016, // mouse encodings
	2004, // bracketed paste
	2031, // reports of the colour scheme
	2048, // resize in band
}

// screen is what of a terminal's state is remembered. Its zero value is a terminal after a reset.
type screen struct {
	flipped uint32 // bit i: modeNumbers[i] is not as after a reset
	alt     bool   // the alternate screen is shown
	keypad  bool   // ESC =
	keys    []int  // stack of kitty keyboard flags, the last one is in force
	other   int    // xterm's modifyOtherKeys
}

// defaultOn says what a mode is after a reset.
func defaultOn(mode int) bool { return mode == 7 || mode == 25 }

func (s *screen) set(mode int, on bool) {
	switch mode {
	case 47, 1047, 1049:
		s.alt = on
		return
	}
	for i, n := range modeNumbers {
		if n == mode {
			s.flipped &^= 1 << i
			if on != defaultOn(mode) {
				s.flipped |= 1 << i
			}
		}
	}
}

// softReset is DECSTR: of what we remember it resets cursor, wrap and keys.
func (s *screen) softReset() {
	s.set(1, false)
	s.set(7, true)
	s.set(25, true)
	s.keypad = false
}

// maxKeyStack bounds the stack of keyboard flags; kitty's own is of a similar size.
const maxKeyStack = 8

// kitty follows the keyboard protocol: CSI > flags u pushes, CSI < n u pops, CSI = flags ; how u changes.
func (s *screen) kitty(private byte, par []int) {
	switch private {
	case '>':
		if len(s.keys) == maxKeyStack {
			s.keys = s.keys[1:]
		}
		s.keys = append(s.keys, par[0])
	case '<':
		s.keys = s.keys[:max(0, len(s.keys)-max(1, par[0]))]
	case '=':
		how := 1
		if len(par) > 1 && par[1] != 0 {
			how = par[1]
		}
		if len(s.keys) == 0 {
			s.keys = append(s.keys, 0)
		}
		now := &s.keys[len(s.keys)-1]
		switch how {
		case 1:
			*now = par[0]
		case 2:
			*now |= par[0]
		case 3:
			*now &^= par[0]
		}
	}
}

// otherKeys follows CSI > 4 ; n m.
func (s *screen) otherKeys(par []int) {
	if par[0] == 0 || par[0] == 4 {
		s.other = 0
		if len(par) > 1 {
			s.other = par[1]
		}
	}
}

// softResetSequence brings a terminal to a known state without clearing it: charset, attributes, margins.
const softResetSequence = "\x1b[!p\x1b[0m\x1b(B\x0f"

// restore is what puts a terminal with a soft reset behind it into the modes of s. All of them are
// said, since a client that is brought up to date may be in any.
func (s *screen) restore() []byte {
	var b []byte
	if s.alt {
		b = append(b, "\x1b[?1049h"...)
	}
	for i, n := range modeNumbers {
		on := s.flipped&(1<<i) != 0 != defaultOn(n)
		b = append(b, "\x1b[?"...)
		b = strconv.AppendInt(b, int64(n), 10)
		if on {
			b = append(b, 'h')
		} else {
			b = append(b, 'l')
		}
	}
	if s.keypad {
		b = append(b, "\x1b="...)
	} else {
		b = append(b, "\x1b>"...)
	}
	if n := len(s.keys); n > 0 && s.keys[n-1] != 0 {
		b = append(b, "\x1b[>"...)
		b = strconv.AppendInt(b, int64(s.keys[n-1]), 10)
		b = append(b, 'u')
	}
	if s.other != 0 {
		b = append(b, "\x1b[>4;"...)
		b = strconv.AppendInt(b, int64(s.other), 10)
		b = append(b, 'm')
	}
	return b
}
