//go:build linux

package sshd

import (
	"bytes"
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// slowConn is a connection whose writes wait for the test.
type slowConn struct {
	net.Conn
	writes   chan []byte
	deadline chan struct{}
	closed   chan struct{}
}

func newSlowConn() *slowConn {
	return &slowConn{writes: make(chan []byte), deadline: make(chan struct{}), closed: make(chan struct{})}
}

func (c *slowConn) Write(b []byte) (int, error) {
	select {
	case c.writes <- bytes.Clone(b):
		return len(b), nil
	case <-c.deadline:
		return 0, os.ErrDeadlineExceeded
	case <-c.closed:
		return 0, net.ErrClosed
	}
}

func (c *slowConn) SetWriteDeadline(at time.Time) error {
	time.AfterFunc(time.Until(at), func() { close(c.deadline) })
	return nil
}

func (c *slowConn) Close() error { close(c.closed); return nil }

func TestBatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSlowConn()
		b := newBatcher(c)
		for _, s := range []string{"one", "two", "three"} {
			if n, err := b.Write([]byte(s)); err != nil || n != len(s) {
				t.Fatal(n, err)
			}
			synctest.Wait()
		}
		if got := string(<-c.writes); got != "one" {
			t.Errorf("first %q", got)
		}
		if got := string(<-c.writes); got != "twothree" {
			t.Errorf("then %q", got)
		}
		// A writer that is ahead waits.
		wrote := 0
		go func() {
			for range 3 {
				_, _ = b.Write(make([]byte, maxBatch))
				wrote++
			}
		}()
		synctest.Wait()
		if wrote != 2 {
			t.Errorf("%d writes went through", wrote)
		}
		<-c.writes
		<-c.writes
		synctest.Wait()
		// What is left is written before the end.
		go b.Close()
		if n := len(<-c.writes); n != maxBatch {
			t.Errorf("at the end %d bytes", n)
		}
		<-c.closed
		if _, err := b.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("after the end: %v", err)
		}
	})
}

// Nobody takes what is left: closing does not wait for ever.
func TestBatcherOfADeadConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSlowConn()
		b := newBatcher(c)
		_, _ = b.Write([]byte("x"))
		begin := time.Now()
		_ = b.Close()
		if d := time.Since(begin); d > lastWrite {
			t.Errorf("it took %v", d)
		}
		if _, err := b.Write([]byte("x")); err == nil {
			t.Error("written after the end")
		}
	})
}
