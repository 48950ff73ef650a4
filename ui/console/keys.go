package console

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
)

// pasteEnd is how a terminal ends a bracketed paste.
const pasteEnd = "\x1b[201~"

// encodePaste is what is sent for pasted text: its line ends as a key gives them, without the terminator of a bracketed paste and
// without every other control character, so that a text from a web page can press no key.
func encodePaste(text string, bracketed bool) []byte {
	text = strings.NewReplacer("\r\n", "\r", "\n", "\r").Replace(text)
	text = strings.Map(func(r rune) rune {
		if r == '\r' || r == '\t' || r >= 0x20 && r != 0x7f && (r < 0x80 || r > 0x9f) {
			return r
		}
		return -1
	}, strings.ReplaceAll(text, pasteEnd, ""))
	if bracketed {
		return []byte("\x1b[200~" + text + pasteEnd)
	}
	return []byte(text)
}

// encodeKey is what a terminal sends for a key (xterm's control sequences); nil: nothing.
func encodeKey(k tea.Key, cursorKeys bool) []byte {
	alt := k.Mod&tea.ModAlt != 0
	if k.Text != "" {
		return escaped(k.Text, alt)
	}
	if seq := special(k, cursorKeys); seq != "" {
		return []byte(seq)
	}
	switch k.Code {
	case tea.KeyEnter, tea.KeyKpEnter:
		return escaped("\r", alt)
	case tea.KeyTab:
		if k.Mod&tea.ModShift != 0 {
			return []byte("\x1b[Z")
		}
		return escaped("\t", alt)
	case tea.KeyBackspace:
		if k.Mod&tea.ModCtrl != 0 {
			return escaped("\b", alt)
		}
		return escaped("\x7f", alt)
	case tea.KeyEscape:
		return escaped("\x1b", alt)
	case tea.KeySpace:
		if k.Mod&tea.ModCtrl != 0 {
			return escaped("\x00", alt)
		}
		return escaped(" ", alt)
	}
	if k.Code < 0x20 || k.Code > 0x7e {
		return nil
	}
	if k.Mod&tea.ModCtrl != 0 {
		if c, ok := control(byte(k.Code)); ok {
			return escaped(string(rune(c)), alt)
		}
		return nil
	}
	return escaped(string(k.Code), alt)
}

func escaped(s string, alt bool) []byte {
	if alt {
		return []byte("\x1b" + s)
	}
	return []byte(s)
}

// control is the control character of a key with ctrl.
func control(b byte) (byte, bool) {
	switch {
	case b >= 'a' && b <= 'z' || b >= '@' && b <= '_':
		return b & 0x1f, true
	case b == '?' || b == '8':
		return 0x7f, true
	case b == ' ' || b == '2':
		return 0, true
	case b >= '3' && b <= '7':
		return b - '3' + 0x1b, true
	case b == '/':
		return 0x1f, true
	}
	return 0, false
}

// letters are the final bytes of cursor keys and F1 to F4, numbers the parameters of the others.
var (
	letters = map[rune]byte{
		tea.KeyUp: 'A', tea.KeyDown: 'B', tea.KeyRight: 'C', tea.KeyLeft: 'D', tea.KeyEnd: 'F', tea.KeyHome: 'H',
		tea.KeyF1: 'P', tea.KeyF2: 'Q', tea.KeyF3: 'R', tea.KeyF4: 'S',
	}
	numbers = map[rune]int{
		tea.KeyInsert: 2, tea.KeyDelete: 3, tea.KeyPgUp: 5, tea.KeyPgDown: 6, tea.KeyF5: 15, tea.KeyF6: 17, tea.KeyF7: 18,
		tea.KeyF8: 19, tea.KeyF9: 20, tea.KeyF10: 21, tea.KeyF11: 23, tea.KeyF12: 24,
	}
)

// special is the sequence of a cursor or function key, with its modifiers as xterm counts them.
func special(k tea.Key, cursorKeys bool) string {
	mod := 1
	for bit, m := range map[int]tea.KeyMod{1: tea.ModShift, 2: tea.ModAlt, 4: tea.ModCtrl} {
		if k.Mod&m != 0 {
			mod += bit
		}
	}
	if n, ok := numbers[k.Code]; ok {
		if mod > 1 {
			return fmt.Sprintf("\x1b[%d;%d~", n, mod)
		}
		return fmt.Sprintf("\x1b[%d~", n)
	}
	b, ok := letters[k.Code]
	switch {
	case !ok:
		return ""
	case mod > 1:
		return fmt.Sprintf("\x1b[1;%d%c", mod, b)
	case cursorKeys || b >= 'P':
		return fmt.Sprintf("\x1bO%c", b)
	}
	return fmt.Sprintf("\x1b[%c", b)
}
