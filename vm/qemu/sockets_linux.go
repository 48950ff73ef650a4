package qemu

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
)

// past is a deadline that has been missed.
var past = time.Unix(1, 0)

// clearStale makes way for a socket at path: what a dead process left there is removed. A
// socket that somebody listens on, or a file that is no socket, is never touched.
func clearStale(path, network string) error {
	if err := layout.CheckSocket(path); err != nil {
		return problem.Wrap(problem.Missing, err, "make a socket",
			"Set XDG_RUNTIME_DIR to a shorter directory.")
	}
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if fi.Mode().Type() != fs.ModeSocket {
		return problem.New(problem.Refused, "make a socket: "+path+" is something else", "Move that file away.")
	}
	conn, err := net.DialTimeout(network, path, 2*time.Second)
	if err == nil {
		_ = conn.Close()
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, unix.ECONNREFUSED): // nobody has it open
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	return problem.New(problem.Refused, "make a socket: another process uses "+path,
		"Is another daemon running? See bromure-cli daemon status.")
}

// listenStream listens at path and connects to it: both ends exist before QEMU, which inherits the
// listening one, runs.
func listenStream(path string) (listening *os.File, conn *net.UnixConn, err error) {
	if err := clearStale(path, "unix"); err != nil {
		return nil, nil, err
	}
	addr := &net.UnixAddr{Name: path, Net: "unix"}
	l, err := net.ListenUnix("unix", addr)
	if err != nil {
		return nil, nil, fmt.Errorf("make a socket: %w", err)
	}
	l.SetUnlinkOnClose(false) // the file is QEMU's now
	defer l.Close()
	conn, err = net.DialUnix("unix", nil, addr)
	if err == nil {
		if listening, err = l.File(); err == nil {
			return listening, conn, nil
		}
		_ = conn.Close()
	}
	_ = os.Remove(path)
	return nil, nil, fmt.Errorf("connect to %s: %w", path, err)
}

// nic is the host's end of the card: a datagram is a frame.
type nic struct {
	conn *net.UnixConn
	path string
}

// nicBuffer is asked for in both directions, in bytes; the kernel gives what net.core.[rw]mem_max
// allows. A frame of the greatest size counts as about 130 KiB there.
const nicBuffer = 4 << 20

// bindNIC takes the host's address of a segment.
func bindNIC(dir layout.MachineDir) (*nic, error) {
	if err := layout.CheckSocket(dir.NetGuest()); err != nil {
		return nil, problem.Wrap(problem.Missing, err, "make a socket", "Set XDG_RUNTIME_DIR to a shorter directory.")
	}
	path := dir.NetHost()
	if err := clearStale(path, "unixgram"); err != nil {
		return nil, err
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("make a socket: %w", err)
	}
	_ = conn.SetReadBuffer(nicBuffer)
	_ = conn.SetWriteBuffer(nicBuffer)
	return &nic{conn: conn, path: path}, nil
}

// connect fixes the peer: from here on nobody else's datagrams are taken, and a full queue at the
// peer is waited for by the poller.
func (n *nic) connect(guest string) error {
	raw, err := n.conn.SyscallConn()
	if err != nil {
		return err
	}
	var errno error
	err = raw.Control(func(fd uintptr) { errno = unix.Connect(int(fd), &unix.SockaddrUnix{Name: guest}) })
	if err = errors.Join(err, os.NewSyscallError("connect", errno)); err != nil {
		return fmt.Errorf("connect the network card at %s: %w", guest, err)
	}
	return nil
}

// Read returns one frame. It ends with io.EOF when the machine is gone or was released.
func (n *nic) Read(p []byte) (int, error) {
	for {
		k, err := n.conn.Read(p)
		switch {
		case errors.Is(err, net.ErrClosed), errors.Is(err, unix.ECONNRESET):
			return 0, io.EOF
		case err != nil || k > 0:
			return k, err
		}
		// An empty datagram is no frame.
	}
}

// Write sends one frame. While the guest takes none it blocks, until [nic.close].
func (n *nic) Write(p []byte) (int, error) {
	k, err := n.conn.Write(p)
	if errors.Is(err, unix.ENOBUFS) {
		return len(p), nil // lost, as frames may be
	}
	return k, err
}

// Close ends both directions.
func (n *nic) Close() error { return n.conn.Close() }
