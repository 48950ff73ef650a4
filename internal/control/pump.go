package control

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/problem"
)

// partingTime is how long a front that is told the server's end may take to hear it.
const partingTime = time.Second

// pump moves frames between a front and a stream until the program has ended, the front is gone
// or ctx ends. Afterwards no goroutine of it is left; the caller closes conn and stream.
func pump(ctx context.Context, conn net.Conn, from io.Reader, stream Stream) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out := &frameWriter{w: conn}
	// Whatever ends the context unblocks everything that waits for the front or for the program.
	closed := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(closed)
		if cause := context.Cause(ctx); errors.Is(cause, errLeaving) {
			_ = conn.SetWriteDeadline(time.Now().Add(partingTime)) // a front that does not read gets no more
			out.fail(cause)
		}
		stream.Close()
		conn.Close()
	})
	in := newInput(stream.Stdin(), out)
	var front, program sync.WaitGroup
	front.Go(in.drain)
	front.Go(func() {
		defer cancel()
		defer in.end(true)
		if err := receive(from, in, stream); err != nil && !errors.Is(err, io.EOF) {
			out.fail(err)
		}
	})
	program.Go(func() { out.copy(wire.FrameData, stream.Stdout()) })
	program.Go(func() { out.copy(wire.FrameStderr, stream.Stderr()) })
	program.Wait()
	code, err := stream.Wait()
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, errLeaving): // how the program ended by that is no news
		out.fail(cause)
	case err != nil && code != 0: // it never ran: the reason stands where its own complaints would
		_ = out.write(wire.FrameStderr, []byte(err.Error()+"\n"))
		_ = out.last(wire.FrameExit, wire.FormatUint32(uint32(int32(code))))
	case err == nil:
		_ = out.last(wire.FrameExit, wire.FormatUint32(uint32(int32(code))))
	case ctx.Err() == nil:
		out.fail(err)
	}
	cancel()
	<-closed
	front.Wait()
}

// receive reads what the front sends, until it is gone or makes no sense.
func receive(from io.Reader, in *input, stream Stream) error {
	for {
		t, payload, err := wire.ReadFrame(from)
		if err != nil {
			return err
		}
		switch t {
		case wire.FrameData:
			err = in.put(payload)
		case wire.FrameEOF:
			in.end(false)
		case wire.FrameResize:
			size, perr := wire.ParseResize(payload)
			if err = perr; err == nil {
				_ = stream.Resize(size) // a program that is over needs no size
			}
		case wire.FrameSignal:
			name, perr := wire.ParseSignal(payload)
			if err = perr; err == nil {
				_ = stream.Signal(name)
			}
		default:
			err = problem.New(problem.Usage, "unknown frame", "")
		}
		if err != nil {
			return err
		}
	}
}

// frameWriter lets several goroutines write frames, until one writes the last.
type frameWriter struct {
	mu   sync.Mutex
	w    io.Writer
	over bool
}

func (f *frameWriter) write(t wire.FrameType, payload []byte) error { return f.put(t, payload, false) }
func (f *frameWriter) last(t wire.FrameType, payload []byte) error  { return f.put(t, payload, true) }

func (f *frameWriter) put(t wire.FrameType, payload []byte, last bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over {
		return io.ErrClosedPipe
	}
	f.over = last
	return wire.WriteFrame(f.w, t, payload)
}

func (f *frameWriter) fail(err error) {
	data, merr := json.Marshal(wire.FromError(err))
	if merr == nil && len(data) <= wire.MaxFrame {
		_ = f.last(wire.FrameError, data) // the front may be gone
	}
}

// copy sends what r yields as frames. A front that is gone is noticed by its reader, so r is read on.
func (f *frameWriter) copy(t wire.FrameType, r io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			_ = f.write(t, buf[:n])
		}
		if err != nil {
			return
		}
	}
}

// input holds standard input that the program has not taken yet, at most [wire.StdinWindow] bytes.
type input struct {
	to  io.WriteCloser
	out *frameWriter

	mu      sync.Mutex
	changed sync.Cond
	queue   [][]byte
	held    int // bytes that are not acknowledged
	eof     bool
	gone    bool // the front is
}

func newInput(to io.WriteCloser, out *frameWriter) *input {
	in := &input{to: to, out: out}
	in.changed.L = &in.mu
	return in
}

var errWindow = problem.New(problem.Usage, "more standard input than the window allows", "")

func (in *input) put(data []byte) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.eof {
		return problem.New(problem.Usage, "standard input after its end", "")
	}
	if in.held += len(data); in.held > wire.StdinWindow {
		return errWindow
	}
	if len(data) > 0 {
		in.queue = append(in.queue, data)
		in.changed.Signal()
	}
	return nil
}

// end says that no more comes: because the input has ended, or because the front is gone.
func (in *input) end(gone bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.eof = true
	in.gone = in.gone || gone
	in.changed.Signal()
}

// drain gives the program its input. What a program that closed its input does not take is dropped, and
// acknowledged all the same, so that the front's source can run dry.
func (in *input) drain() {
	broken := false
	for {
		in.mu.Lock()
		for len(in.queue) == 0 && !in.eof {
			in.changed.Wait()
		}
		if len(in.queue) == 0 || in.gone {
			in.mu.Unlock()
			_ = in.to.Close()
			return
		}
		data := in.queue[0]
		in.queue = in.queue[1:]
		in.mu.Unlock()

		if !broken {
			_, err := in.to.Write(data)
			broken = err != nil
		}
		in.mu.Lock()
		in.held -= len(data)
		in.mu.Unlock()
		_ = in.out.write(wire.FrameTaken, wire.FormatUint32(uint32(len(data))))
	}
}
