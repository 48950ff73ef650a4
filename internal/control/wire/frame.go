package wire

import (
	"encoding/binary"
	"fmt"
	"io"

	"bromure.io/tui/vm/guest"
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
	FrameTaken  FrameType = 7 // daemon → front: the program took so many bytes of standard input, uint32, big-endian
)

// StdinWindow is how many bytes of standard input a front may have sent beyond those that [FrameTaken]
// has acknowledged. Without it, input that the program does not read would stand in the way of the
// signal that is to end the program.
const StdinWindow = 1 << 20

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

// FormatResize is the payload of a [FrameResize].
func FormatResize(s guest.Size) []byte {
	var b [4]byte
	binary.BigEndian.PutUint16(b[:], clamp16(s.Cols))
	binary.BigEndian.PutUint16(b[2:], clamp16(s.Rows))
	return b[:]
}

// ParseResize reads the payload of a [FrameResize].
func ParseResize(p []byte) (guest.Size, error) {
	if len(p) != 4 {
		return guest.Size{}, fmt.Errorf("resize frame of %d bytes: it has 4", len(p))
	}
	return guest.Size{
		Cols: int(binary.BigEndian.Uint16(p)),
		Rows: int(binary.BigEndian.Uint16(p[2:])),
	}, nil
}

func clamp16(n int) uint16 { return uint16(max(0, min(n, 0xffff))) }

// FormatUint32 is the payload of a [FrameTaken], and of a [FrameExit] as two's complement.
func FormatUint32(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// ParseUint32 reads the payload of a [FrameTaken] or of a [FrameExit].
func ParseUint32(p []byte) (uint32, error) {
	if len(p) != 4 {
		return 0, fmt.Errorf("frame with a number of %d bytes: it has 4", len(p))
	}
	return binary.BigEndian.Uint32(p), nil
}

// ParseSignal reads the payload of a [FrameSignal].
func ParseSignal(p []byte) (string, error) {
	if len(p) == 0 || len(p) > 16 {
		return "", fmt.Errorf("signal name of %d bytes", len(p))
	}
	for _, c := range p {
		if (c < 'A' || c > 'Z') && (c < '0' || c > '9') {
			return "", fmt.Errorf("not a signal name: %q", p)
		}
	}
	return string(p), nil
}
