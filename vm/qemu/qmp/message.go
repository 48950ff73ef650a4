package qmp

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// MaxLine bounds one message from QEMU, in bytes. The greatest that we ask for is a few KiB.
const MaxLine = 256 << 10

// errLineTooLong ends a connection: what follows cannot be in step any more.
var errLineTooLong = fmt.Errorf("a message has more than %d bytes", MaxLine)

// message is everything that QEMU sends: the greeting, replies and events (QEMU's docs/interop/qmp-spec).
type message struct {
	Greeting *struct {
		Version Version `json:"version"`
	} `json:"QMP"`

	ID     *uint64         `json:"id"`
	Return json.RawMessage `json:"return"`
	Error  *Error          `json:"error"`

	Event     string          `json:"event"`
	Data      json.RawMessage `json:"data"`
	Timestamp struct {
		Seconds      int64 `json:"seconds"` // -1 when the host's clock could not be read
		Microseconds int64 `json:"microseconds"`
	} `json:"timestamp"`
}

// Version is QEMU's, from the greeting.
type Version struct {
	QEMU struct {
		Major int `json:"major"`
		Minor int `json:"minor"`
		Micro int `json:"micro"`
	} `json:"qemu"`
	Package string `json:"package"`
}

// Error is QEMU's refusal of a command.
type Error struct {
	Class string `json:"class"`
	Desc  string `json:"desc"`
}

func (e *Error) Error() string {
	if e.Desc == "" {
		return e.Class
	}
	return e.Desc
}

// Event is something that QEMU reports unasked.
type Event struct {
	Name string
	Data json.RawMessage // may be nil
	At   time.Time       // zero when QEMU did not know
}

func parse(line []byte) (message, error) {
	var m message
	if err := json.Unmarshal(line, &m); err != nil {
		return message{}, fmt.Errorf("parse a message: %w", err)
	}
	if m.Greeting == nil && m.Event == "" && m.Return == nil && m.Error == nil {
		return message{}, errors.New("parse a message: neither greeting, reply nor event")
	}
	return m, nil
}

func (m *message) event() Event {
	e := Event{Name: m.Event, Data: m.Data}
	if m.Timestamp.Seconds > 0 {
		e.At = time.Unix(m.Timestamp.Seconds, m.Timestamp.Microseconds*int64(time.Microsecond))
	}
	return e
}

// readLine returns the next line without its end. The slice is valid until the next call.
func readLine(r *bufio.Reader) ([]byte, error) {
	for {
		line, err := r.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			return nil, errLineTooLong
		case errors.Is(err, io.EOF) && len(line) > 0:
			return nil, io.ErrUnexpectedEOF
		case err != nil:
			return nil, err
		}
		for len(line) > 0 && (line[len(line)-1] == '\n' || line[len(line)-1] == '\r') {
			line = line[:len(line)-1]
		}
		if len(line) > 0 {
			return line, nil
		}
	}
}
