package console

import (
	"errors"
	"io"
	"time"

	"bromure.io/tui/vm/guest"
)

const (
	// maxQueue is how much output may wait for one client, in bytes.
	maxQueue = 256 << 10
	// stall is how long a client may take nothing before the program goes on without it.
	stall = 2 * time.Second
)

// skipped is what a client reads that was left behind.
const skipped = "\r\n\x1b[7m some output was left out: this terminal could not keep up \x1b[0m\r\n"

// ErrDetached is returned for input of a client that is not attached any more.
var ErrDetached = errors.New("not attached to the console")

// Client is one who looks at a console. It never holds up the others, and the program only briefly: output waits for it in
// a bounded queue; while it is full and others are faster, or when it takes nothing at all, the client is left behind. As soon as it
// has taken what it had, it gets the recent output and the modes anew, as if it came just then.
type Client struct {
	console *Console
	out     io.Writer

	// Guarded by console.mu.
	size     guest.Size
	queue    []byte
	behind   bool
	progress time.Time // when it last took something, or had nothing to take
	detached bool

	done chan struct{}
}

// push adds output for the client. The lock is held.
func (cl *Client) push(b []byte) {
	if cl.behind || cl.detached {
		return
	}
	if len(cl.queue) == 0 {
		cl.progress = time.Now()
	}
	if len(cl.queue)+len(b) > maxQueue+2*readSize {
		cl.leaveBehind()
		return
	}
	cl.queue = append(cl.queue, b...)
}

// leaveBehind drops what comes from now on; what is queued stays, since it begins where the client is. The lock is held.
func (cl *Client) leaveBehind() { cl.behind = true }

// catchUp queues what brings the client from anywhere to the present. The lock is held.
func (cl *Client) catchUp(fresh bool) {
	c := cl.console
	b := cl.queue[:0]
	if !fresh {
		b = append(b, "\x1b[?1047l"...) // out of the alternate screen, if it was there
	}
	b = append(b, softResetSequence...)
	if !fresh {
		b = append(b, skipped...)
	}
	b = append(b, c.history.replay()...)
	b = append(b, c.parser.screen.restore()...)
	cl.queue, cl.behind, cl.progress = b, false, time.Now()
}

// run writes to the client until it is detached or the program has ended and all is written.
func (cl *Client) run() {
	defer close(cl.done)
	c := cl.console
	var chunk []byte
	for {
		c.mu.Lock()
		for len(cl.queue) == 0 && !cl.behind && !cl.detached && !c.exited {
			c.changed.Wait()
		}
		repaint := false
		if len(cl.queue) == 0 && cl.behind {
			cl.catchUp(false)
			repaint = c.parser.screen.alt
		}
		n := min(len(cl.queue), readSize)
		if cl.detached || n == 0 {
			c.mu.Unlock()
			cl.Detach()
			return
		}
		chunk = append(chunk[:0], cl.queue[:n]...)
		cl.queue = append(cl.queue[:0], cl.queue[n:]...)
		c.mu.Unlock()

		if repaint {
			c.repaint()
		}
		if _, err := cl.out.Write(chunk); err != nil {
			cl.Detach()
			return
		}
		c.mu.Lock()
		cl.progress = time.Now()
		c.changed.Broadcast()
		c.mu.Unlock()
	}
}

// Write types b into the console. It waits while the program does not read.
func (cl *Client) Write(b []byte) (int, error) {
	c := cl.console
	c.mu.Lock()
	defer c.mu.Unlock()
	c.use(cl)
	total := len(b)
	for len(b) > 0 {
		for len(c.input) >= maxInput && !cl.detached && !c.exited {
			c.changed.Wait()
		}
		if cl.detached || c.exited {
			return total - len(b), ErrDetached
		}
		n := min(len(b), maxInput-len(c.input))
		c.input = append(c.input, b[:n]...)
		b = b[n:]
		c.changed.Broadcast()
	}
	return total, nil
}

// Resize says the client's size, which becomes the terminal's.
func (cl *Client) Resize(s guest.Size) {
	c := cl.console
	c.mu.Lock()
	defer c.mu.Unlock()
	cl.size = s.Clamp()
	c.use(cl)
}

// Signal sends a signal to the program in the terminal's foreground.
func (cl *Client) Signal(number int) error { return cl.console.prog.Signal(number) }

// Detach leaves the console. The program goes on.
func (cl *Client) Detach() {
	c := cl.console
	c.mu.Lock()
	defer c.mu.Unlock()
	if cl.detached {
		return
	}
	cl.detached = true
	for i, other := range c.clients {
		if other == cl {
			c.clients = append(c.clients[:i:i], c.clients[i+1:]...)
			break
		}
	}
	c.fit()
	c.changed.Broadcast()
}

// Done is closed when the client has got everything: it was detached, or the program has ended.
func (cl *Client) Done() <-chan struct{} { return cl.done }

// Exit is how the program ended; ok is false while it runs.
func (cl *Client) Exit() (exit guest.Exit, ok bool) {
	c := cl.console
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.exit, c.exited
}
