package console

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"

	"bromure.io/tui/vm/guest"
)

// Limits of what a set holds.
const (
	maxConsoles = 64
	maxClients  = 32 // of one console
)

// Set holds consoles by their names.
type Set struct {
	mu     sync.Mutex
	byName map[string]*Console
	all    sync.WaitGroup // everything that runs for consoles and clients
	closed bool
}

// NewSet returns a set without consoles.
func NewSet() *Set { return &Set{byName: make(map[string]*Console)} }

// Attach attaches out to the console of that name, which start makes when it does not exist. What the console prints is
// written to out from goroutines of the set, until [Client.Done].
//
// A console whose program ended while nobody was attached is kept for the next who
// attaches: he reads its last output and its exit, and then it is gone.
func (s *Set) Attach(name string, size guest.Size, out io.Writer, start func() (p Program, command string, err error)) (*Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errors.New("attach to a console: the guest is shutting down")
	}
	size = size.Clamp()
	c := s.byName[name]
	if c == nil {
		if err := s.makeRoom(); err != nil {
			return nil, err
		}
		p, command, err := start()
		if err != nil {
			return nil, err
		}
		c = newConsole(&s.all, name, command, size, p, s.ended)
		s.byName[name] = c
	}
	return c.attach(&s.all, size, out, func() { s.drop(c) })
}

// attach adds a client. seen is called when the client leaves after the program's end.
func (c *Console) attach(wg *sync.WaitGroup, size guest.Size, out io.Writer, seen func()) (*Client, error) {
	c.mu.Lock()
	if len(c.clients) >= maxClients {
		c.mu.Unlock()
		return nil, fmt.Errorf("attach to console %q: it has %d clients", c.name, maxClients)
	}
	cl := &Client{console: c, out: out, size: size, done: make(chan struct{})}
	cl.catchUp(true)
	before := c.size
	c.clients = append(c.clients, cl)
	c.fit()
	// A new size makes the program paint by itself.
	repaint := c.parser.screen.alt && c.size == before
	c.mu.Unlock()
	if repaint {
		c.repaint()
	}
	wg.Go(func() {
		cl.run()
		if _, ok := cl.Exit(); ok {
			seen()
		}
	})
	return cl, nil
}

// makeRoom forgets the oldest console that nobody saw the end of, when there are too many. The lock is held.
func (s *Set) makeRoom() error {
	if len(s.byName) < maxConsoles {
		return nil
	}
	var oldest *Console
	for _, c := range s.byName {
		if c.info().Exited && (oldest == nil || c.started.Before(oldest.started)) {
			oldest = c
		}
	}
	if oldest == nil {
		return fmt.Errorf("make a console: there are %d", maxConsoles)
	}
	delete(s.byName, oldest.name)
	return nil
}

// ended is called by a console when its program has ended.
func (s *Set) ended(c *Console) {
	// With somebody there its end is being seen, and its name is free.
	if c.info().Attached > 0 {
		s.drop(c)
	}
}

func (s *Set) drop(c *Console) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName[c.name] == c {
		delete(s.byName, c.name)
	}
}

// List describes the consoles, by name.
func (s *Set) List() []guest.ConsoleInfo {
	s.mu.Lock()
	list := slices.Collect(maps.Values(s.byName))
	s.mu.Unlock()
	out := make([]guest.ConsoleInfo, 0, len(list))
	for _, c := range list {
		out = append(out, c.info())
	}
	slices.SortFunc(out, func(a, b guest.ConsoleInfo) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// Close hangs up all consoles and returns when their programs have ended.
func (s *Set) Close() {
	s.mu.Lock()
	s.closed = true
	list := slices.Collect(maps.Values(s.byName))
	s.mu.Unlock()
	for _, c := range list {
		if !c.info().Exited {
			s.all.Go(c.prog.Hangup)
		}
	}
	s.all.Wait()
}
