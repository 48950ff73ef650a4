//go:build linux

package process

import (
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Modes are terminal settings as a client sends them with a pty-req: by opcode, RFC 4254, section 8.
type Modes map[byte]uint32

// ParseModes reads the encoded terminal modes of a pty-req: pairs of an opcode and a uint32, up to TTY_OP_END or to
// an opcode from 160 on, whose arguments are not defined. What is cut short ends the list as well.
func ParseModes(s string) Modes {
	m := make(Modes)
	for len(s) >= 5 && s[0] != 0 && s[0] < 160 {
		m[s[0]] = binary.BigEndian.Uint32([]byte(s[1:5]))
		s = s[5:]
	}
	return m
}

// Opcodes of control characters, and where Linux keeps each.
var modeChars = map[byte]int{
	1: unix.VINTR, 2: unix.VQUIT, 3: unix.VERASE, 4: unix.VKILL, 5: unix.VEOF, 6: unix.VEOL, 7: unix.VEOL2,
	8: unix.VSTART, 9: unix.VSTOP, 10: unix.VSUSP, 12: unix.VREPRINT, 13: unix.VWERASE, 14: unix.VLNEXT,
	16: unix.VSWTC, 18: unix.VDISCARD,
}

var modeInput = map[byte]uint32{
	30: unix.IGNPAR, 31: unix.PARMRK, 32: unix.INPCK, 33: unix.ISTRIP, 34: unix.INLCR, 35: unix.IGNCR, 36: unix.ICRNL,
	37: unix.IUCLC, 38: unix.IXON, 39: unix.IXANY, 40: unix.IXOFF, 41: unix.IMAXBEL, 42: unix.IUTF8,
}

var modeLocal = map[byte]uint32{
	50: unix.ISIG, 51: unix.ICANON, 52: unix.XCASE, 53: unix.ECHO, 54: unix.ECHOE, 55: unix.ECHOK, 56: unix.ECHONL,
	57: unix.NOFLSH, 58: unix.TOSTOP, 59: unix.IEXTEN, 60: unix.ECHOCTL, 61: unix.ECHOKE, 62: unix.PENDIN,
}

var modeOutput = map[byte]uint32{
	70: unix.OPOST, 71: unix.OLCUC, 72: unix.ONLCR, 73: unix.OCRNL, 74: unix.ONOCR, 75: unix.ONLRET,
}

// Character size and parity (90 to 93) and speeds (128, 129) mean nothing to a pseudo-terminal; 7-bit characters would
// only break UTF-8. They are accepted and left alone.

// apply sets the modes on a terminal that the kernel just made with its defaults. Input is UTF-8
// unless the client says otherwise: erasing takes whole characters then.
func (m Modes) apply(tty *os.File) error {
	return control(tty, func(fd int) error {
		t, err := unix.IoctlGetTermios(fd, unix.TCGETS)
		if err != nil {
			return fmt.Errorf("read terminal modes: %w", err)
		}
		m.set(t)
		if err := unix.IoctlSetTermios(fd, unix.TCSETS, t); err != nil {
			return fmt.Errorf("set terminal modes: %w", err)
		}
		return nil
	})
}

func (m Modes) set(t *unix.Termios) {
	t.Iflag |= unix.IUTF8
	for op, v := range m {
		if i, ok := modeChars[op]; ok {
			if v == 255 { // RFC 4254: not in use. Linux says that with 0.
				v = 0
			}
			t.Cc[i] = byte(v)
		}
		flag(&t.Iflag, modeInput[op], v)
		flag(&t.Lflag, modeLocal[op], v)
		flag(&t.Oflag, modeOutput[op], v)
	}
}

func flag(field *uint32, bit, v uint32) {
	if v != 0 {
		*field |= bit
	} else {
		*field &^= bit
	}
}
