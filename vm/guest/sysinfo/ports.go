package sysinfo

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
)

// maxSockets bounds how many listening sockets are reported; a guest that has more is not read further.
const maxSockets = 1024

// socket is a listening socket of one line of /proc/net/tcp or tcp6.
type socket struct {
	addr  netip.AddrPort
	inode uint64
}

// listening is the state TCP_LISTEN in those files.
const listening = "0A"

// parseSockets reads /proc/net/tcp or tcp6 and returns the listening sockets. Lines it cannot read make an
// error, unless they are of other states: those it does not look at.
func parseSockets(r io.Reader) ([]socket, error) {
	var out []socket
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 4096), 4096)
	for first := true; s.Scan(); first = false {
		// sl local_address rem_address st tx_queue:rx_queue tr:when retrnsmt uid timeout inode …
		f := bytes.Fields(s.Bytes())
		if first || len(f) < 4 || string(f[3]) != listening {
			continue
		}
		if len(f) < 10 {
			return nil, fmt.Errorf("listening sockets: %w", errFormat)
		}
		addr, err := parseSocketAddr(f[1])
		if err != nil {
			return nil, fmt.Errorf("listening sockets: %w", err)
		}
		inode, err := strconv.ParseUint(string(f[9]), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("listening sockets: %w", errFormat)
		}
		if out = append(out, socket{addr, inode}); len(out) == maxSockets {
			return out, nil
		}
	}
	if err := s.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("listening sockets: %w", errFormat)
	} else if err != nil {
		return nil, fmt.Errorf("listening sockets: %w", err)
	}
	return out, nil
}

// parseSocketAddr reads "0100007F:1F90": the address as 32-bit words, each printed as the number that a
// little-endian machine has in memory, and the port as a number.
func parseSocketAddr(b []byte) (netip.AddrPort, error) {
	host, port, ok := bytes.Cut(b, []byte(":"))
	n, err := strconv.ParseUint(string(port), 16, 16)
	if !ok || err != nil || len(host) != 8 && len(host) != 32 {
		return netip.AddrPort{}, errFormat
	}
	raw := make([]byte, len(host)/2)
	if _, err := hex.Decode(raw, host); err != nil {
		return netip.AddrPort{}, errFormat
	}
	for w := raw; len(w) > 0; w = w[4:] {
		binary.LittleEndian.PutUint32(w, binary.BigEndian.Uint32(w))
	}
	addr, _ := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(addr, uint16(n)), nil
}

// parseSocketLink reads the target of a link in /proc/PID/fd: "socket:[12345]".
func parseSocketLink(s string) (inode uint64, ok bool) {
	const pre, post = "socket:[", "]"
	if len(s) <= len(pre)+len(post) || s[:len(pre)] != pre || s[len(s)-1:] != post {
		return 0, false
	}
	n, err := strconv.ParseUint(s[len(pre):len(s)-len(post)], 10, 64)
	return n, err == nil
}
