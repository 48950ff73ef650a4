package console

import "bytes"

// HistorySize is how much recent output a console keeps, in bytes.
const HistorySize = 256 << 10

// history is a ring of the output that a later client gets. Only whole sequences are put in, and no
// line feed stands within one, so behind every line feed a replay may begin.
type history struct {
	buf  []byte // grows to HistorySize
	next int    // where the next byte goes, once buf is full
}

func (h *history) write(p []byte) {
	if len(p) >= HistorySize {
		p = p[len(p)-HistorySize:]
	}
	if room := HistorySize - len(h.buf); room > 0 {
		n := min(room, len(p))
		h.buf = append(h.buf, p[:n]...)
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(h.buf[h.next:], p)
		h.next = (h.next + n) % HistorySize
		p = p[n:]
	}
}

func (h *history) reset() { h.buf, h.next = h.buf[:0], 0 }

// replay is the kept output from the first safe place on.
func (h *history) replay() []byte {
	out := make([]byte, 0, len(h.buf))
	out = append(out, h.buf[h.next:]...)
	out = append(out, h.buf[:h.next]...)
	if len(out) == HistorySize { // the beginning was overwritten, perhaps in the middle of a sequence
		if i := bytes.IndexByte(out, '\n'); i >= 0 {
			out = out[i+1:]
		} else if i := bytes.LastIndexByte(out, '\r'); i >= 0 {
			// One endless line, such as a progress bar's: its last state is enough.
			if j := bytes.LastIndexByte(out[:i], '\r'); j >= 0 {
				i = j
			}
			out = out[i+1:]
		} else {
			out = nil
		}
	}
	return out
}
