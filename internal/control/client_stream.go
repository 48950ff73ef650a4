package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm/guest"
)

// upgrade makes a request whose answer is a stream. The connection is one of its own: an
// http.Transport would not let its directions be closed one by one.
func (c *Client) upgrade(ctx context.Context, path string, body any) (net.Conn, *bufio.Reader, error) {
	req, err := newRequest(ctx, "POST", path, body)
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", wire.Upgrade)
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, nil, c.unreachable(ctx, err)
	}
	unhook := context.AfterFunc(ctx, func() { conn.Close() })
	defer unhook()
	br := bufio.NewReaderSize(conn, 64<<10)
	err = req.Write(conn)
	var resp *http.Response
	if err == nil {
		resp, err = http.ReadResponse(br, req)
	}
	if err != nil {
		conn.Close()
		return nil, nil, c.unreachable(ctx, err)
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		defer conn.Close()
		return nil, nil, errorOf(resp)
	}
	return conn, br, nil
}

// Forward is [Service.Forward]; the result has a CloseWrite.
func (c *Client) Forward(ctx context.Context, ref, addr string) (io.ReadWriteCloser, error) {
	err := wire.CheckRef(ref)
	if err == nil {
		err = checkAddr(addr)
	}
	if err != nil {
		return nil, err
	}
	conn, br, err := c.upgrade(ctx, path(wire.PathForward, ref, addr), nil)
	if err != nil {
		return nil, err
	}
	f := &forwarded{UnixConn: conn.(*net.UnixConn), r: br}
	f.unhook = context.AfterFunc(ctx, func() { conn.Close() })
	return f, nil
}

type forwarded struct {
	*net.UnixConn
	r      *bufio.Reader // may hold what came with the answer's head
	unhook func() bool
}

func (f *forwarded) Read(p []byte) (int, error) { return f.r.Read(p) }

// WriteTo hides the one of UnixConn, which knows nothing of the reader.
func (f *forwarded) WriteTo(w io.Writer) (int64, error) { return f.r.WriteTo(w) }

func (f *forwarded) Close() error {
	f.unhook()
	return f.UnixConn.Close()
}

// Attach is [Service.Attach].
func (c *Client) Attach(ctx context.Context, ref string, a wire.Attach) (Stream, error) {
	err := wire.CheckRef(ref)
	if err == nil {
		err = a.Check()
	}
	if err != nil {
		return nil, err
	}
	conn, br, err := c.upgrade(ctx, path(wire.PathAttach, ref), a)
	if err != nil {
		return nil, err
	}
	s := &attached{conn: conn, out: frameWriter{w: conn}, over: make(chan struct{})}
	s.in.s = s
	s.in.changed.L = &s.in.mu
	s.stdout, s.stdoutW = io.Pipe()
	s.stderr, s.stderrW = io.Pipe()
	s.unhook = context.AfterFunc(ctx, func() { s.Close() })
	go s.receive(br)
	return s, nil
}

// attached is the front's end of a stream.
type attached struct {
	conn   net.Conn
	out    frameWriter
	in     stdin
	unhook func() bool

	stdout, stderr   *io.PipeReader
	stdoutW, stderrW *io.PipeWriter

	over chan struct{} // closed when code and err are set
	code int
	err  error
}

func (s *attached) Stdin() io.WriteCloser { return &s.in }
func (s *attached) Stdout() io.Reader     { return s.stdout }
func (s *attached) Stderr() io.Reader     { return s.stderr }

func (s *attached) Resize(size guest.Size) error {
	return s.out.write(wire.FrameResize, wire.FormatResize(size))
}

func (s *attached) Signal(name string) error {
	return s.out.write(wire.FrameSignal, []byte(name))
}

func (s *attached) Wait() (int, error) {
	<-s.over
	return s.code, s.err
}

func (s *attached) Close() error {
	s.unhook()
	err := s.conn.Close()
	s.stdout.Close() // receive may be waiting for a reader
	s.stderr.Close()
	<-s.over
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (s *attached) receive(br *bufio.Reader) {
	code, err := s.frames(br)
	s.code, s.err = code, err
	s.stdoutW.Close()
	s.stderrW.Close()
	s.in.stop()
	close(s.over)
}

// frames reads until the program's end. A write to a pipe whose reader is closed is no reason to
// stop: the exit code is still wanted.
func (s *attached) frames(br *bufio.Reader) (int, error) {
	for {
		t, payload, err := wire.ReadFrame(br)
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return 0, problem.New(problem.Interrupted, "the stream was closed", "")
			}
			return 0, problem.New(problem.Unreachable, "the daemon went away in the middle", "`daemon logs` shows what it said.")
		}
		switch t {
		case wire.FrameData:
			_, _ = s.stdoutW.Write(payload)
		case wire.FrameStderr:
			_, _ = s.stderrW.Write(payload)
		case wire.FrameTaken:
			if n, err := wire.ParseUint32(payload); err == nil {
				s.in.taken(n)
			}
		case wire.FrameExit:
			n, err := wire.ParseUint32(payload)
			return int(int32(n)), err
		case wire.FrameError:
			var e wire.Error
			if json.Unmarshal(payload, &e) != nil {
				e = wire.Error{Kind: problem.Failed, Msg: "the stream ended with an error that cannot be read"}
			}
			return 0, e.Problem()
		}
	}
}

// stdin sends data within the window.
type stdin struct {
	s *attached

	mu      sync.Mutex
	changed sync.Cond
	sent    int // not acknowledged
	over    bool
}

func (in *stdin) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		chunk := p[:min(len(p), 32<<10)]
		if !in.reserve(len(chunk)) {
			return n, io.ErrClosedPipe
		}
		if err := in.s.out.write(wire.FrameData, chunk); err != nil {
			return n, err
		}
		n += len(chunk)
		p = p[len(chunk):]
	}
	return n, nil
}

func (in *stdin) reserve(n int) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	for !in.over && in.sent+n > wire.StdinWindow {
		in.changed.Wait()
	}
	in.sent += n
	return !in.over
}

// Drain waits until the program has been given everything that was written, at most for limit.
func (in *stdin) Drain(limit time.Duration) {
	late := false
	timer := time.AfterFunc(limit, func() {
		in.mu.Lock()
		late = true
		in.mu.Unlock()
		in.changed.Broadcast()
	})
	defer timer.Stop()
	in.mu.Lock()
	defer in.mu.Unlock()
	for in.sent > 0 && !in.over && !late {
		in.changed.Wait()
	}
}

func (in *stdin) taken(n uint32) {
	in.mu.Lock()
	in.sent = max(0, in.sent-int(n))
	in.mu.Unlock()
	in.changed.Broadcast()
}

func (in *stdin) stop() {
	in.mu.Lock()
	in.over = true
	in.mu.Unlock()
	in.changed.Broadcast()
}

// Close ends the program's input; the stream goes on.
func (in *stdin) Close() error {
	in.mu.Lock()
	over := in.over
	in.over = true
	in.mu.Unlock()
	in.changed.Broadcast()
	if over {
		return nil
	}
	return in.s.out.write(wire.FrameEOF, nil)
}
