package control_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"bromure.io/tui/internal/control"
	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/vm/guest"
)

func execArgv(argv ...string) *guest.Exec { return &guest.Exec{Argv: argv} }

// attachRaw begins a stream and leaves the frames to the test.
func attachRaw(t testing.TB, c *control.Client, body string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("unix", c.Socket())
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(15 * time.Second))
	fmt.Fprintf(conn, "POST /v1/attach/w HTTP/1.1\r\nHost: bromure\r\nConnection: Upgrade\r\nUpgrade: %s\r\nContent-Length: %d\r\n\r\n%s", wire.Upgrade, len(body), body)
	br := bufio.NewReader(conn)
	resp, err := http.ReadResponse(br, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", resp, err)
	}
	return conn, br
}

func running(t testing.TB, c *control.Client) {
	t.Helper()
	if _, err := c.Create(t.Context(), wire.Create{Name: "w"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Do(t.Context(), wire.Do{Verb: "start", Workspace: "w"}, nil); err != nil {
		t.Fatal(err)
	}
}

// TestFramesThatMakeNoSense end the stream with an error and the program with it.
func TestFramesThatMakeNoSense(t *testing.T) {
	_, c := serve(t, newFake(t))
	running(t, c)
	frame := func(typ byte, payload string) string {
		var b bytes.Buffer
		_ = wire.WriteFrame(&b, wire.FrameType(typ), []byte(payload))
		return b.String()
	}
	for name, bad := range map[string]string{
		"unknown type":       frame(99, ""),
		"exit from a front":  frame(byte(wire.FrameExit), "\x00\x00\x00\x00"),
		"short resize":       frame(byte(wire.FrameResize), "\x00"),
		"signal by path":     frame(byte(wire.FrameSignal), "../9"),
		"empty signal":       frame(byte(wire.FrameSignal), ""),
		"too long":           "\x00\xff\xff\xff\xff",
		"data after the end": frame(byte(wire.FrameEOF), "") + frame(byte(wire.FrameData), "x"),
	} {
		t.Run(name, func(t *testing.T) {
			conn, br := attachRaw(t, c, `{"exec":{"argv":["sleep","1000"]}}`)
			defer conn.Close()
			if _, err := io.WriteString(conn, bad); err != nil {
				t.Fatal(err)
			}
			typ, _, err := wire.ReadFrame(br)
			if err != nil || typ != wire.FrameError {
				t.Fatalf("frame %d, %v", typ, err)
			}
			if _, _, err := wire.ReadFrame(br); err != io.EOF {
				t.Errorf("after the error: %v", err)
			}
		})
	}
}

// TestWindow: a front that sends more input than the window is cut off.
func TestWindow(t *testing.T) {
	_, c := serve(t, newFake(t))
	running(t, c)
	conn, br := attachRaw(t, c, `{"exec":{"argv":["sleep","1000"]}}`)
	defer conn.Close()
	go func() {
		for range 2*wire.StdinWindow/wire.MaxFrame + 4 {
			if wire.WriteFrame(conn, wire.FrameData, make([]byte, wire.MaxFrame)) != nil {
				return
			}
		}
	}()
	for {
		typ, payload, err := wire.ReadFrame(br)
		if err != nil {
			t.Fatalf("no error frame: %v", err)
		}
		if typ == wire.FrameError {
			if !bytes.Contains(payload, []byte("window")) {
				t.Errorf("%s", payload)
			}
			return
		}
	}
}

// TestProgramThatCannotStart has the exit code that a shell gives, and says why on standard error.
func TestProgramThatCannotStart(t *testing.T) {
	_, c := serve(t, newFake(t))
	running(t, c)
	s, err := c.Attach(t.Context(), "w", wire.Attach{Exec: execArgv("/no/such/program")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	go io.Copy(io.Discard, s.Stdout())
	said, _ := io.ReadAll(s.Stderr())
	if code, err := s.Wait(); code != guest.NotFound || err != nil || !bytes.Contains(said, []byte("/no/such/program")) {
		t.Errorf("code %d, error %v, said %q", code, err, said)
	}
}

// FuzzFrames: whatever a front sends on a stream, the server goes on, and the stream ends.
func FuzzFrames(f *testing.F) {
	fake := newFuzzServer(f)
	var b bytes.Buffer
	_ = wire.WriteFrame(&b, wire.FrameResize, wire.FormatResize(guest.Size{Cols: 80, Rows: 24}))
	_ = wire.WriteFrame(&b, wire.FrameData, []byte("hello"))
	_ = wire.WriteFrame(&b, wire.FrameSignal, []byte("TERM"))
	_ = wire.WriteFrame(&b, wire.FrameEOF, nil)
	f.Add(b.Bytes())
	f.Add([]byte{0, 0, 0, 0, 1})
	f.Add([]byte{9, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		conn, br := attachRaw(t, fake, `{"exec":{"argv":["cat"]}}`)
		defer conn.Close()
		go func() {
			_, _ = conn.Write(data)
			_ = conn.(*net.UnixConn).CloseWrite()
		}()
		for {
			if _, _, err := wire.ReadFrame(br); err != nil {
				if ne, ok := err.(net.Error); ok && ne.Timeout() {
					t.Fatal("the stream does not end")
				}
				return
			}
		}
	})
}
