package controltest

import (
	"context"
	"io"
	"sync"

	"bromure.io/tui/internal/control"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm/guest"
)

// console is a terminal session that outlives its attachments.
type console struct {
	p *process

	mu       sync.Mutex
	attached map[*attachment]bool
	over     bool
}

// console finds or makes a console. The lock is held.
func (f *Fake) console(ctx context.Context, w *space, c guest.Console) (control.Stream, error) {
	if c.Name == "" {
		c.Name = guest.DefaultConsole
	}
	con, ok := w.consoles[c.Name]
	if !ok {
		argv := c.Argv
		if len(argv) == 0 {
			argv = []string{"sh"}
		}
		s, err := run(context.Background(), guest.Exec{Argv: argv, TTY: true, Size: c.Size, Term: c.Term, Env: map[string]string{"PS1": "$ "}})
		if err != nil {
			return nil, err
		}
		con = &console{p: s.(*process), attached: map[*attachment]bool{}}
		w.consoles[c.Name] = con
		go func() {
			con.copy()
			f.mu.Lock()
			if w.consoles[c.Name] == con {
				delete(w.consoles, c.Name)
			}
			f.mu.Unlock()
		}()
	} else {
		_ = con.p.Resize(c.Size)
	}
	f.change()
	return con.attach(ctx), nil
}

func (c *console) attach(ctx context.Context) *attachment {
	a := &attachment{c: c, gone: make(chan struct{})}
	a.r, a.w = io.Pipe()
	c.mu.Lock()
	c.attached[a] = true
	if c.over {
		a.w.Close()
	}
	c.mu.Unlock()
	context.AfterFunc(ctx, func() { a.Close() })
	return a
}

// copy moves what the program prints to everyone who is attached, until it ends.
func (c *console) copy() {
	buf := make([]byte, 4096)
	for {
		n, err := c.p.out.Read(buf)
		c.mu.Lock()
		list := make([]*attachment, 0, len(c.attached))
		for a := range c.attached {
			list = append(list, a)
		}
		c.over = c.over || err != nil
		c.mu.Unlock()
		for _, a := range list {
			_, _ = a.w.Write(buf[:n])
			if err != nil {
				a.w.Close()
			}
		}
		if err != nil {
			_, _ = c.p.Wait()
			c.p.Close()
			return
		}
	}
}

func (c *console) end() { c.p.Close() }

// attachment is a [control.Stream].
type attachment struct {
	c    *console
	r    *io.PipeReader
	w    *io.PipeWriter
	once sync.Once
	gone chan struct{}
}

func (a *attachment) Stdin() io.WriteCloser     { return noClose{a.c.p.tty} }
func (a *attachment) Stdout() io.Reader         { return a.r }
func (a *attachment) Stderr() io.Reader         { return emptyReader{} }
func (a *attachment) Resize(s guest.Size) error { return a.c.p.Resize(s) }
func (a *attachment) Signal(n string) error     { return a.c.p.Signal(n) }

func (a *attachment) Wait() (int, error) {
	select {
	case <-a.c.p.done:
		return a.c.p.Wait()
	case <-a.gone:
		return 0, problem.New(problem.Interrupted, "detached", "")
	}
}

func (a *attachment) Close() error {
	a.once.Do(func() { close(a.gone) })
	a.c.mu.Lock()
	delete(a.c.attached, a)
	a.c.mu.Unlock()
	return a.r.Close()
}
