// Package console holds terminals that outlive who looks at them: a program on a terminal, its recent output, and any
// number of clients that see the same and type into the same. It knows neither SSH nor processes.
//
// A client that comes gets the recent output of the main screen without anything that would ask
// its terminal a question, then the modes the program has set, then what is printed from there on; a program on
// the alternate screen is made to paint again. Read console.go, then client.go for what a slow client gets.
package console

import (
	"bytes"
	"io"
	"slices"
	"sync"
	"time"

	"bromure.io/tui/vm/guest"
)

// Program is a program on a terminal.
type Program interface {
	io.Reader // ends with io.EOF when no program has the terminal open any more
	io.Writer
	SetReadDeadline(time.Time) error
	Resize(guest.Size) error
	Signal(number int) error // to the foreground process group
	Wait() guest.Exit
	Hangup() // ends everything that runs on the terminal
	Close()
}

const (
	readSize = 32 << 10
	// lingering is how long a program's leftovers may keep a terminal whose program has ended.
	lingering = 2 * time.Second
	// jiggle is how long a program on the alternate screen sees a size that is one row smaller. Many repaint only
	// when the size has really changed, and two changes at once are one to them.
	jiggle = 80 * time.Millisecond
	// maxInput bounds what is typed ahead of a program that does not read, in bytes.
	maxInput = 64 << 10
)

// Console is one terminal. Its methods may be called from any goroutine.
type Console struct {
	name    string
	command string
	started time.Time
	prog    Program

	mu      sync.Mutex
	changed sync.Cond // of mu: any of the below
	parser  parser
	history history
	alt     bool      // the piece before this one was on the alternate screen
	clients []*Client // the last one is the one in use: it typed, resized or came last
	size    guest.Size
	input   []byte
	exited  bool
	exit    guest.Exit
}

func newConsole(wg *sync.WaitGroup, name, command string, size guest.Size, prog Program, gone func(*Console)) *Console {
	c := &Console{name: name, command: command, started: time.Now(), prog: prog, size: size}
	c.changed.L = &c.mu
	ended := make(chan struct{})
	wg.Go(c.typeAhead)
	wg.Go(func() {
		exit := prog.Wait()
		prog.SetReadDeadline(time.Now().Add(lingering))
		<-ended // everything that was printed is with the clients
		prog.Close()
		c.mu.Lock()
		c.exited, c.exit = true, exit
		c.changed.Broadcast()
		c.mu.Unlock()
		gone(c)
	})
	wg.Go(func() {
		defer close(ended)
		c.pump()
	})
	return c
}

// pump takes what the program prints and hands it out, until the terminal is closed.
func (c *Console) pump() {
	buf := make([]byte, readSize)
	for {
		n, err := c.prog.Read(buf)
		if n > 0 {
			c.mu.Lock()
			c.parser.feed(buf[:n], c.deliver)
			c.changed.Broadcast()
			c.pace()
			c.mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}

// deliver gives one piece of output to whom it is for. The lock is held.
func (c *Console) deliver(piece []byte, k kind) {
	// deliver is called after the parser took the piece in, so screen is already that behind it.
	alt := c.parser.screen.alt
	wasAlt := c.alt
	c.alt = alt
	if c.parser.takeErased() {
		c.history.reset()
	} else if k == plain && !alt && !wasAlt {
		kept := piece
		if piece[0] != esc && bytes.IndexByte(piece, bel) >= 0 {
			kept = bytes.ReplaceAll(piece, []byte{bel}, nil) // nobody wants to hear the past
		}
		c.history.write(kept)
	}
	for i, cl := range c.clients {
		if k == plain || i == len(c.clients)-1 {
			cl.push(piece)
		}
	}
}

// pace waits while every client is busy with what it has, so that the program runs as fast as the fastest of
// them shows it, as on any terminal. A client that takes nothing for a while does not count: it is
// left behind and brought up to date when it wakes up. The lock is held.
func (c *Console) pace() {
	for {
		now := time.Now()
		var wait time.Duration
		for _, cl := range c.clients {
			switch {
			case cl.behind:
			case len(cl.queue) < maxQueue:
				return
			case now.Sub(cl.progress) >= stall:
				cl.leaveBehind()
			default:
				wait = max(wait, stall-now.Sub(cl.progress))
			}
		}
		if wait == 0 {
			return
		}
		t := time.AfterFunc(wait, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.changed.Broadcast()
		})
		c.changed.Wait()
		t.Stop()
	}
}

// typeAhead writes to the program what clients type. It is a goroutine of its own, so that a program that
// does not read holds up nobody but those who type too much.
func (c *Console) typeAhead() {
	for {
		c.mu.Lock()
		for len(c.input) == 0 && !c.exited {
			c.changed.Wait()
		}
		if c.exited {
			c.mu.Unlock()
			return
		}
		// The room counts as taken until it is written.
		b := slices.Clone(c.input)
		c.mu.Unlock()
		_, err := c.prog.Write(b)
		c.mu.Lock()
		c.input = append(c.input[:0], c.input[len(b):]...)
		if err != nil {
			c.input = c.input[:0]
		}
		c.changed.Broadcast()
		c.mu.Unlock()
	}
}

// use makes cl the client in use: its size is the terminal's. People look at one client at a time, and the one that they
// type into should fit; the smallest of all would let a forgotten window cripple the one in front. The lock is held.
func (c *Console) use(cl *Client) {
	i := slices.Index(c.clients, cl)
	if i < 0 {
		return
	}
	c.clients = append(slices.Delete(c.clients, i, i+1), cl)
	c.fit()
}

// fit gives the terminal the size of the client in use, if it said one. The lock is held.
func (c *Console) fit() {
	for _, cl := range slices.Backward(c.clients) {
		if !cl.size.IsZero() {
			if cl.size != c.size {
				c.size = cl.size
				c.prog.Resize(c.size)
			}
			return
		}
	}
}

// repaint makes a program on the alternate screen draw everything again.
func (c *Console) repaint() {
	c.mu.Lock()
	defer c.mu.Unlock()
	small := c.size
	if small.Rows < 2 || c.exited {
		return
	}
	small.Rows--
	c.prog.Resize(small)
	time.AfterFunc(jiggle, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.exited {
			c.prog.Resize(c.size)
		}
	})
}

func (c *Console) info() guest.ConsoleInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	return guest.ConsoleInfo{
		Name: c.name, Started: c.started, Attached: len(c.clients), Size: c.size, Command: c.command, Exited: c.exited,
	}
}
