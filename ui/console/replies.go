package console

// allowed keeps of a terminal's answers those that say nothing which the guest or the user's terminal chose: control sequences
// that report attributes, status, cursor position and modes. A title or a clipboard would be text that the
// guest gets typed into its own shell (field case: title report), and colours and strings are dropped as well.
func allowed(in []byte) []byte {
	var out []byte
	for i := 0; i < len(in); {
		n, ok := report(in[i:])
		if ok {
			out = append(out, in[i:i+n]...)
		}
		i += max(1, n)
	}
	return out
}

// report finds a control sequence (ECMA-48, section 5.4) at the beginning of p: its length, and whether it is one of ours to give.
func report(p []byte) (n int, ok bool) {
	if len(p) < 3 || p[0] != 0x1b {
		return 1, false
	}
	if p[1] != '[' { // a string: it goes as a whole, up to its terminator
		for i := 2; i < len(p); i++ {
			if p[i] == 0x07 {
				return i + 1, false
			}
			if p[i] == '\\' && p[i-1] == 0x1b {
				return i + 1, false
			}
		}
		return len(p), false
	}
	for i := 2; i < len(p) && i < 64; i++ {
		switch b := p[i]; {
		case b >= 0x40 && b <= 0x7e:
			return i + 1, b == 'c' || b == 'n' || b == 'R' || b == 'y'
		case b < 0x20 || b > 0x7e:
			return i, false
		}
	}
	return len(p), false
}
