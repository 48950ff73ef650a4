package wire

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestFrames(t *testing.T) {
	var buf bytes.Buffer
	sent := []struct {
		t FrameType
		p string
	}{
		{FrameData, "hello"}, {FrameData, ""}, {FrameResize, "\x00\x50\x00\x18"}, {FrameEOF, ""},
		{FrameStderr, strings.Repeat("e", MaxFrame)}, {FrameExit, "\x00\x00\x00\x01"}, {200, "of a later version"},
	}
	for _, f := range sent {
		if err := WriteFrame(&buf, f.t, []byte(f.p)); err != nil {
			t.Fatal(err)
		}
	}
	// However the bytes are cut on their way.
	for name, r := range map[string]io.Reader{
		"whole": bytes.NewReader(buf.Bytes()), "bytes": iotest.OneByteReader(bytes.NewReader(buf.Bytes())), "halves": iotest.HalfReader(bytes.NewReader(buf.Bytes())),
	} {
		for i, want := range sent {
			typ, p, err := ReadFrame(r)
			if typ != want.t || string(p) != want.p || err != nil {
				t.Fatalf("%s: frame %d = %d, %.20q, %v", name, i, typ, p, err)
			}
		}
		if _, _, err := ReadFrame(r); err != io.EOF {
			t.Errorf("%s: after the last frame: %v", name, err)
		}
	}
}

func TestFrameLimits(t *testing.T) {
	var buf bytes.Buffer
	if err := WriteFrame(&buf, FrameData, make([]byte, MaxFrame+1)); err == nil || buf.Len() != 0 {
		t.Errorf("a frame over the limit: %v, %d bytes were written", err, buf.Len())
	}
	for _, head := range []string{"\x00\x00\x04\x00\x01", "\x00\xff\xff\xff\xff", "\x00\x80\x00\x00\x00"} {
		_, p, err := ReadFrame(io.MultiReader(strings.NewReader(head), neverRead{t}))
		if err == nil || p != nil {
			t.Errorf("a frame that says %x: %d bytes, %v", head[1:], len(p), err)
		}
	}
	whole := "\x00\x00\x00\x00\x05hello"
	for n := 1; n < len(whole); n++ {
		if _, _, err := ReadFrame(strings.NewReader(whole[:n])); err != io.ErrUnexpectedEOF {
			t.Errorf("cut after %d bytes: %v", n, err)
		}
	}
	boom := errors.New("boom")
	if _, _, err := ReadFrame(io.MultiReader(strings.NewReader(whole[:7]), iotest.ErrReader(boom))); err != boom {
		t.Errorf("a reader's error: %v", err)
	}
}

// neverRead fails the test when something is read for a frame that is refused.
type neverRead struct{ t *testing.T }

func (r neverRead) Read(p []byte) (int, error) {
	r.t.Errorf("%d bytes were asked for after a refused length", len(p))
	return 0, io.EOF
}

// One frame is one Write, so that writers with a lock around WriteFrame never mix.
func TestFrameIsOneWrite(t *testing.T) {
	var w countingWriter
	for _, n := range []int{0, 1, 100, MaxFrame} {
		w = countingWriter{}
		if err := WriteFrame(&w, FrameData, make([]byte, n)); err != nil || w.calls != 1 || w.bytes != n+5 {
			t.Errorf("%d bytes: %d writes of %d bytes, %v", n, w.calls, w.bytes, err)
		}
	}
}

type countingWriter struct{ calls, bytes int }

func (w *countingWriter) Write(p []byte) (int, error) {
	w.calls++
	w.bytes += len(p)
	return len(p), nil
}

func FuzzReadFrame(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x00\x05hello"))
	f.Add([]byte("\x02\x00\x00\x00\x04\x00\x00\x00\x01\x06"))
	f.Add([]byte("\x00\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := bytes.NewReader(data)
		var again bytes.Buffer
		for {
			typ, p, err := ReadFrame(r)
			if err != nil {
				break
			}
			if len(p) > MaxFrame {
				t.Fatalf("a frame of %d bytes", len(p))
			}
			if err := WriteFrame(&again, typ, p); err != nil {
				t.Fatal(err)
			}
		}
		if !bytes.HasPrefix(data, again.Bytes()) {
			t.Errorf("%x reads as %x", data, again.Bytes())
		}
	})
}
