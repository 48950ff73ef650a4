//go:build linux

package sshd

import (
	"net"
	"sync"
	"time"
)

// batcher gathers what is written to a connection in quick succession. The SSH library writes every packet by
// itself, often in several parts, and an emulated network card costs the same for a byte as for 64 KiB. What
// is written first goes out at once; what comes while that is under way follows in one piece.
type batcher struct {
	net.Conn
	mu      sync.Mutex
	changed sync.Cond
	buf     []byte
	spare   []byte
	closed  bool
	err     error
	done    chan struct{}
}

// maxBatch bounds what waits, in bytes. A writer that is ahead waits.
const maxBatch = 256 << 10

// lastWrite is how long the rest may take when the connection is closed.
const lastWrite = time.Second

func newBatcher(c net.Conn) *batcher {
	b := &batcher{Conn: c, done: make(chan struct{})}
	b.changed.L = &b.mu
	go b.run()
	return b
}

func (b *batcher) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.buf) >= maxBatch && b.err == nil && !b.closed {
		b.changed.Wait()
	}
	if b.err != nil {
		return 0, b.err
	}
	if b.closed {
		return 0, net.ErrClosed
	}
	b.buf = append(b.buf, p...)
	b.changed.Broadcast()
	return len(p), nil
}

func (b *batcher) run() {
	defer close(b.done)
	b.mu.Lock()
	defer b.mu.Unlock()
	for {
		for len(b.buf) == 0 && !b.closed {
			b.changed.Wait()
		}
		if len(b.buf) == 0 {
			return
		}
		out := b.buf
		b.buf, b.spare = b.spare[:0], nil
		b.changed.Broadcast()
		b.mu.Unlock()
		_, err := b.Conn.Write(out)
		b.mu.Lock()
		b.spare = out[:0]
		if err != nil {
			b.err, b.buf = err, nil
			b.changed.Broadcast()
			return
		}
	}
}

func (b *batcher) Close() error {
	b.mu.Lock()
	already := b.closed
	b.closed = true
	b.changed.Broadcast()
	b.mu.Unlock()
	if !already {
		_ = b.Conn.SetWriteDeadline(time.Now().Add(lastWrite))
	}
	<-b.done
	return b.Conn.Close()
}
