package qemu

import (
	"fmt"
	"io"
	"sync"
)

// consoleSize is how much of the guest's output waits for the reader, in bytes.
const consoleSize = 64 << 10

// console stands between the guest's serial port and its reader. It always takes what the guest
// prints, or the guest would stand still in its driver; when the reader does not keep up, the oldest
// bytes are lost, and the reader is told how many.
type console struct {
	mu     sync.Mutex
	filled sync.Cond
	buf    []byte // ring; allocated at the first byte
	start  int
	n      int
	lost   int64
	note   []byte // tells of a loss; what of it was not read yet
	closed bool
}

func newConsole() *console {
	c := &console{}
	c.filled.L = &c.mu
	return c
}

// pump copies r until it ends.
func (c *console) pump(r io.Reader) {
	defer c.close()
	buf := make([]byte, 16<<10)
	for {
		n, err := r.Read(buf)
		c.put(buf[:n])
		if err != nil {
			return
		}
	}
}

func (c *console) put(p []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(p) == 0 || c.closed {
		return
	}
	if c.buf == nil {
		c.buf = make([]byte, consoleSize)
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
}

// Read blocks until there is output, and ends with io.EOF when all of it was read and the machine is gone.
func (c *console) Read(p []byte) (int, error) {
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

func (c *console) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.filled.Broadcast()
}
