// Package console stands between a guest's serial port and its reader: it always takes what the
// guest prints, or the guest would stand still in its driver, and it never grows.
package console

import (
	"fmt"
	"io"
	"sync"
)

// Size is how much of the guest's output waits for the reader, in bytes. A whole boot fits.
const Size = 64 << 10

// Console keeps what was printed until it is read. When the reader does not keep up, the oldest bytes
// are lost, and the reader is told how many. Its methods may be called from any goroutine.
type Console struct {
	mu     sync.Mutex
	filled sync.Cond
	buf    []byte // ring; allocated at the first byte
	start  int
	n      int
	lost   int64
	note   []byte // tells of a loss; what of it was not read yet
	closed bool
}

// New returns an empty console.
func New() *Console {
	c := &Console{}
	c.filled.L = &c.mu
	return c
}

// Pump takes what r gives until it ends, and then closes the console.
func (c *Console) Pump(r io.Reader) {
	defer c.Close()
	buf := make([]byte, 16<<10)
	for {
		n, err := r.Read(buf)
		_, _ = c.Write(buf[:n])
		if err != nil {
			return
		}
	}
}

// Write takes all of p at once. It fails after [Console.Close] only.
func (c *Console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, io.ErrClosedPipe
	}
	written := len(p)
	if written == 0 {
		return 0, nil
	}
	if c.buf == nil {
		c.buf = make([]byte, Size)
	}
	if over := len(p) - len(c.buf); over > 0 {
		c.lost += int64(over)
		p = p[over:]
	}
	if over := c.n + len(p) - len(c.buf); over > 0 {
		c.lost += int64(over)
		c.start = (c.start + over) % len(c.buf)
		c.n -= over
	}
	end := (c.start + c.n) % len(c.buf)
	k := copy(c.buf[end:], p)
	copy(c.buf, p[k:])
	c.n += len(p)
	c.filled.Signal()
	return written, nil
}

// Waiting is how many bytes wait for the reader, and how many were lost since it was last told.
func (c *Console) Waiting() (kept int, lost int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n, c.lost
}

// Read blocks until there is output, and ends with io.EOF when all of it was read after [Console.Close].
func (c *Console) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	for c.n == 0 && len(c.note) == 0 && c.lost == 0 {
		if c.closed {
			return 0, io.EOF
		}
		c.filled.Wait()
	}
	if c.lost > 0 && len(c.note) == 0 {
		c.note = fmt.Appendf(nil, "\r\n[%d bytes of console output were not read in time]\r\n", c.lost)
		c.lost = 0
	}
	if len(c.note) > 0 {
		n := copy(p, c.note)
		c.note = c.note[n:]
		return n, nil
	}
	n := copy(p, c.buf[c.start:min(c.start+c.n, len(c.buf))])
	c.start = (c.start + n) % len(c.buf)
	c.n -= n
	return n, nil
}

// Close ends the console: what was printed can still be read.
func (c *Console) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.filled.Broadcast()
	return nil
}
