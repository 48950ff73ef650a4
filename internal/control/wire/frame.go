package wire

import (
	"encoding/binary"
	"fmt"
	"io"
)

// FrameType is the first byte of a frame on an attached stream. A frame is the type, the
// payload's length as a big-endian uint32, and the payload.
type FrameType byte

const (
	FrameData   FrameType = 0 // front → daemon: standard input; daemon → front: standard output
	FrameResize FrameType = 1 // front → daemon: columns and rows, uint16 each, big-endian
	FrameExit   FrameType = 2 // daemon → front: exit code, int32, big-endian; the last frame
	FrameEOF    FrameType = 3 // front → daemon: standard input has ended
	FrameStderr FrameType = 4 // daemon → front: standard error
	FrameSignal FrameType = 5 // front → daemon: name of a signal without "SIG" (RFC 4254, section 6.10)
	FrameError  FrameType = 6 // daemon → front: [Error] as JSON; the last frame
)

// MaxFrame is the largest payload that a peer may send, in bytes.
const MaxFrame = 256 << 10

// WriteFrame writes one frame in one Write call. Concurrent callers need a lock of their own.
func WriteFrame(w io.Writer, t FrameType, payload []byte) error {
	if len(payload) > MaxFrame {
		return fmt.Errorf("frame of %d bytes: the limit is %d", len(payload), MaxFrame)
	}
	buf := make([]byte, 5+len(payload))
	buf[0] = byte(t)
	binary.BigEndian.PutUint32(buf[1:], uint32(len(payload)))
	copy(buf[5:], payload)
	_, err := w.Write(buf)
	return err
}

// ReadFrame reads one frame. io.EOF means that the peer closed the stream between two frames.
func ReadFrame(r io.Reader) (FrameType, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > MaxFrame {
		return 0, nil, fmt.Errorf("frame of %d bytes: the limit is %d", n, MaxFrame)
	}
	payload := make([]byte, n)
	if _, err := io.ReadFull(r, payload); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return FrameType(head[0]), payload, nil
}
