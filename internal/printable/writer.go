package printable

import (
	"io"
	"unicode/utf8"
)

// Writer is [Text] for a stream. A character that is cut in two by Write calls is put together again.
type Writer struct {
	w    io.Writer
	rest []byte // the beginning of a character, or a carriage return that may be before a line feed
}

// NewWriter returns a Writer; call Flush at the end.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

func (w *Writer) Write(p []byte) (int, error) {
	data := append(w.rest, p...)
	keep := unfinished(data)
	out := Text(string(data[:len(data)-keep]))
	w.rest = append([]byte(nil), data[len(data)-keep:]...)
	if _, err := io.WriteString(w.w, out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Flush writes what waited for more.
func (w *Writer) Flush() error {
	rest := w.rest
	w.rest = nil
	_, err := io.WriteString(w.w, Text(string(rest)))
	return err
}

// unfinished is how many bytes at the end could mean something else with the next ones.
func unfinished(b []byte) int {
	if len(b) > 0 && b[len(b)-1] == '\r' {
		return 1
	}
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if tail := b[len(b)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}
