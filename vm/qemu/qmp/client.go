// Package qmp is a client of QEMU's machine protocol: line-delimited JSON over a Unix socket. It
// knows the protocol and no command. What comes in is bounded and never trusted to be well formed:
// anything that breaks the protocol ends the connection and fails what waits for it.
package qmp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// ErrClosed: the connection has ended, by [Client.Close] or because QEMU has.
var ErrClosed = errors.New("the connection to QEMU is closed")

// maxPending bounds the commands that wait for a reply. QEMU itself stops reading after 8.
const maxPending = 64

// Client is a connection whose capabilities have been negotiated. Its methods may be called from
// any goroutine.
type Client struct {
	conn    net.Conn
	version Version
	onEvent func(Event)

	writing sync.Mutex // one command on the wire at a time

	mu      sync.Mutex
	next    uint64
	pending map[uint64]chan message // each buffered by one; closed with the connection
	err     error                   // why the connection ended

	done chan struct{} // closed when the reader has ended
}

// New reads the greeting and leaves negotiation mode. It owns conn from here on, also when it fails.
// onEvent is called in the order of the events, by one goroutine, which must not be held up.
func New(ctx context.Context, conn net.Conn, onEvent func(Event)) (*Client, error) {
	c := &Client{
		conn:    conn,
		onEvent: onEvent,
		pending: make(map[uint64]chan message),
		done:    make(chan struct{}),
	}
	// The deadline of a context has no channel of its own: a cancelled one closes the connection.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	err := c.handshake(ctx)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = c.Close()
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("greet QEMU: %w", err)
	}
	return c, nil
}

func (c *Client) handshake(ctx context.Context) error {
	r := bufio.NewReaderSize(c.conn, MaxLine)
	line, err := readLine(r)
	if err != nil {
		close(c.done)
		return err
	}
	m, err := parse(line)
	if err == nil && m.Greeting == nil {
		err = errors.New("the first message is no greeting")
	}
	if err != nil {
		close(c.done)
		return err
	}
	c.version = m.Greeting.Version
	go c.read(r)
	return c.Run(ctx, "qmp_capabilities", nil, nil)
}

// Version is what QEMU said of itself.
func (c *Client) Version() Version { return c.version }

// Done is closed when the connection has ended and the last event was delivered.
func (c *Client) Done() <-chan struct{} { return c.done }

// Close ends the connection and waits for its reader: no event is delivered afterwards. It must
// not be called from onEvent.
func (c *Client) Close() error {
	c.fail(ErrClosed)
	<-c.done
	return nil
}

// Run executes a command. args becomes "arguments", result is filled from "return"; both may be nil.
// A refusal is an [*Error]. When ctx ends first, the command may still be carried out.
func (c *Client) Run(ctx context.Context, command string, args, result any) error {
	m, err := c.run(ctx, command, args)
	if err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(m.Return, result); err != nil {
		return fmt.Errorf("%s: parse the reply: %w", command, err)
	}
	return nil
}

func (c *Client) run(ctx context.Context, command string, args any) (message, error) {
	if err := ctx.Err(); err != nil {
		return message{}, err
	}
	id, reply, err := c.expect()
	if err != nil {
		return message{}, err
	}
	defer c.forget(id)
	line, err := json.Marshal(struct {
		Execute   string `json:"execute"`
		Arguments any    `json:"arguments,omitempty"`
		ID        uint64 `json:"id"`
	}{command, args, id})
	if err != nil {
		return message{}, err
	}
	if err := c.write(ctx, append(line, '\n')); err != nil {
		return message{}, err
	}
	select {
	case m, ok := <-reply:
		if !ok {
			return message{}, c.Err()
		}
		if m.Error != nil {
			return message{}, m.Error
		}
		return m, nil
	case <-ctx.Done():
		return message{}, ctx.Err()
	}
}

// write sends a whole line or ends the connection: half a line would garble the next one.
func (c *Client) write(ctx context.Context, line []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	fired := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(fired)
		_ = c.conn.SetWriteDeadline(time.Unix(1, 0))
	})
	n, err := c.conn.Write(line)
	if !stop() {
		<-fired // or it would hit the next command
		_ = c.conn.SetWriteDeadline(time.Time{})
	}
	if err == nil {
		return nil
	}
	if n == 0 && ctx.Err() != nil {
		return ctx.Err()
	}
	c.fail(err)
	return c.Err()
}

// expect draws an ID and registers a waiter for its reply.
func (c *Client) expect() (uint64, chan message, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, nil, c.err
	}
	if len(c.pending) >= maxPending {
		return 0, nil, fmt.Errorf("%d commands wait for QEMU already", maxPending)
	}
	c.next++
	reply := make(chan message, 1)
	c.pending[c.next] = reply
	return c.next, reply, nil
}

func (c *Client) forget(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, id)
}

// Err is why the connection ended; nil while it lives.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// fail ends the connection; the first reason stands.
func (c *Client) fail(err error) {
	c.mu.Lock()
	if c.err == nil {
		c.err = err
		if !errors.Is(err, ErrClosed) {
			c.err = fmt.Errorf("%w: %w", ErrClosed, err)
		}
		for id, reply := range c.pending {
			close(reply)
			delete(c.pending, id)
		}
	}
	c.mu.Unlock()
	_ = c.conn.Close()
}

func (c *Client) read(r *bufio.Reader) {
	defer close(c.done)
	for {
		line, err := readLine(r)
		if err != nil {
			c.fail(err)
			return
		}
		m, err := parse(line)
		if err != nil {
			c.fail(err)
			return
		}
		switch {
		case m.Event != "":
			if c.onEvent != nil {
				c.onEvent(m.event())
			}
		case m.ID != nil:
			c.mu.Lock()
			if reply, ok := c.pending[*m.ID]; ok { // else: nobody waits any more
				delete(c.pending, *m.ID)
				reply <- m
			}
			c.mu.Unlock()
		case m.Error != nil:
			// QEMU could not read what we sent, and cannot say which command it was.
			c.fail(m.Error)
			return
		}
	}
}
