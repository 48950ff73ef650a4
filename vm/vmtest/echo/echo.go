// Package echo is the guest of the backend contract: a few commands in raw Ethernet frames, the
// same for a real kernel (vm/vmtest/testguest) and for the fake. It uses no IP, so that the
// contract of a backend needs no network stack.
package echo

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"bromure.io/tui/vm/guest"
)

// EtherType marks our frames: "local experimental 1" of IEEE 802, so no stack answers it.
const EtherType = 0x88b5

// Op is the first byte of a frame's payload.
type Op byte

// Requests, and the replies to them in lower case.
const (
	Echo     Op = 'E' // the same data comes back
	EchoOK   Op = 'e'
	Print    Op = 'P' // the data is a line for the serial console; there is no reply
	Flood    Op = 'F' // print that many bytes (decimal), then [FloodEnd]; the reply comes after the last byte
	FloodOK  Op = 'f'
	Boot     Op = 'B' // → an ID that is new at each boot of the guest
	BootOK   Op = 'b'
	Disks    Op = 'D' // → one line a disk: serial, size in bytes, "ro" or "rw"
	DisksOK  Op = 'd'
	Write    Op = 'W' // data "serial\x00bytes": write them at [WriteOffset], flush → the error, or nothing
	WriteOK  Op = 'w'
	PowerOff Op = 'O'
	Reboot   Op = 'R'
)

// FloodEnd is the line after a flood.
const FloodEnd = "BROMURE-FLOOD-END"

// WriteOffset is where [Write] writes, in bytes. It is past the first sectors of a file system.
const WriteOffset = 1 << 20

// MaxFlood bounds [Flood], in bytes.
const MaxFlood = 16 << 20

// headerLen is an Ethernet header: two addresses and the type (IEEE 802.3, no tag).
const headerLen = 14

// MaxFrame is the greatest frame on a segment: the guest's MTU and the header.
const MaxFrame = guest.MTU + headerLen

// Request makes a frame from the gateway to every card.
func Request(op Op, data []byte) []byte {
	f := make([]byte, 0, headerLen+1+2+len(data))
	f = append(f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff) // broadcast: the guest's address is the spec's affair
	f = append(f, 0x02, 0, 0, 0, 0, 0x01)             // guest.GatewayMAC
	return appendBody(f, op, data)
}

func appendBody(f []byte, op Op, data []byte) []byte {
	f = append(f, EtherType>>8, EtherType&0xff, byte(op))
	return append(f, data...)
}

// Parse takes one of our frames apart; ok is false for all others, which a real kernel sends too.
// Short frames may carry padding behind the data (IEEE 802.3, 64 bytes at least on a wire).
func Parse(frame []byte) (op Op, data []byte, ok bool) {
	if len(frame) <= headerLen || frame[12] != EtherType>>8 || frame[13] != EtherType&0xff {
		return 0, nil, false
	}
	return Op(frame[headerLen]), frame[headerLen+1:], true
}

// Host is what the guest can do to itself.
type Host struct {
	Disks    func() string
	Write    func(serial string, data []byte) error
	PowerOff func()
	Reboot   func()
}

// Serve prints guest.ProbeMarker and answers frames until reading fails. bootID is what [Boot] answers.
func Serve(nic io.ReadWriter, serial io.Writer, bootID string, host Host) error {
	fmt.Fprintln(serial, guest.ProbeMarker)
	buf := make([]byte, MaxFrame+1)
	for {
		n, err := nic.Read(buf)
		if err != nil {
			return err
		}
		op, data, ok := Parse(buf[:n])
		if !ok {
			continue
		}
		reply := func(op Op, data []byte) {
			f := append([]byte(nil), buf[6:12]...) // back to the sender
			f = append(f, 0x02, 0, 0, 0, 0, 0x02)
			_, _ = nic.Write(appendBody(f, op, data)) // a lost reply is asked for again
		}
		switch op {
		case Echo:
			reply(EchoOK, data)
		case Print:
			fmt.Fprintf(serial, "%s\n", data)
		case Flood:
			if err := flood(serial, string(data)); err != nil {
				fmt.Fprintln(serial, err)
			}
			reply(FloodOK, nil)
		case Boot:
			reply(BootOK, []byte(bootID))
		case Disks:
			reply(DisksOK, []byte(host.Disks()))
		case Write:
			name, rest, _ := bytes.Cut(data, []byte{0})
			var msg string
			if err := host.Write(string(name), rest); err != nil {
				msg = err.Error()
			}
			reply(WriteOK, []byte(msg))
		case PowerOff:
			host.PowerOff()
		case Reboot:
			host.Reboot()
		}
	}
}

func flood(w io.Writer, count string) error {
	n, err := strconv.Atoi(strings.TrimRight(count, "\x00"))
	if err != nil || n < 0 || n > MaxFlood {
		return errors.New("flood: bad count")
	}
	line := []byte(strings.Repeat("x", 127) + "\n")
	for ; n > 0; n -= len(line) {
		if _, err := w.Write(line[:min(n, len(line))]); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(w, "\n%s\n", FloodEnd)
	return err
}
