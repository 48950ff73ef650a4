package console

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestEverythingInOrder(t *testing.T) {
	c := New()
	var want bytes.Buffer
	go func() {
		for i := range 2000 {
			_, _ = fmt.Fprintf(c, "line %d\n", i)
		}
		_ = c.Close()
	}()
	for i := range 2000 {
		fmt.Fprintf(&want, "line %d\n", i)
	}
	got, err := io.ReadAll(iotest.OneByteReader(c))
	if err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%d of %d bytes, %v", len(got), want.Len(), err)
	}
}

// Whoever reads too late gets the end, and the number of what was lost.
func TestOldestIsLost(t *testing.T) {
	for _, chunk := range []int{1, 100, 4096, Size, 3 * Size} {
		t.Run(fmt.Sprint(chunk), func(t *testing.T) {
			c := New()
			text := []byte(strings.Repeat("0123456789", Size/3))
			for rest := text; len(rest) > 0; {
				n, err := c.Write(rest[:min(chunk, len(rest))])
				if err != nil || n == 0 {
					t.Fatal(n, err)
				}
				rest = rest[n:]
			}
			if kept, lost := c.Waiting(); kept != Size || lost != int64(len(text)-Size) {
				t.Errorf("%d bytes wait, %d are lost", kept, lost)
			}
			_ = c.Close()
			got, err := io.ReadAll(iotest.HalfReader(c))
			note, rest, found := bytes.Cut(got, []byte("]\r\n"))
			if err != nil || !found || !bytes.Contains(note, fmt.Append(nil, len(text)-Size)) {
				t.Errorf("no note of the loss: %q, %v", got[:min(100, len(got))], err)
			}
			if !bytes.Equal(rest, text[len(text)-Size:]) {
				t.Error("what is kept is not the end")
			}
		})
	}
}

func TestPump(t *testing.T) {
	c := New()
	go c.Pump(iotest.DataErrReader(strings.NewReader("all of it")))
	if got, err := io.ReadAll(c); err != nil || string(got) != "all of it" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := c.Write([]byte("more")); err == nil {
		t.Error("a closed console takes more")
	}
}
