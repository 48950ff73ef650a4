package control

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
)

// Listen makes the control socket of a data root. The caller holds the daemon's lock, and
// lets go of it only after it has closed the listener: the lock is what makes removing a dead socket safe.
//
// A socket that answers is never unlinked; one that a daemon left behind is, after a connection to it
// was refused by the kernel. The listener drops peers of other users.
func Listen(root layout.Root, rt layout.Runtime) (net.Listener, error) {
	path := rt.ControlSocket()
	if err := layout.CheckSocket(path); err != nil {
		return nil, err
	}
	if err := layout.Ensure(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("make the runtime directory: %w", err)
	}
	if err := removeDead(path); err != nil {
		return nil, err
	}
	// The directory lets nobody else in, so the mode that the umask gives for an instant does no harm.
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen on the control socket: %w", err)
	}
	if err := os.Chmod(path, layout.FileMode); err != nil {
		l.Close()
		return nil, fmt.Errorf("listen on the control socket: %w", err)
	}
	if err := writeEndpoint(root, path); err != nil {
		l.Close()
		return nil, fmt.Errorf("note where the control socket is: %w", err)
	}
	return &ownListener{UnixListener: l, uid: uint32(os.Geteuid()), peer: peerUID}, nil
}

// removeDead removes what an earlier daemon left at path, if it is provably dead.
func removeDead(path string) error {
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the control socket: %w", err)
	}
	if fi.Mode()&fs.ModeType != fs.ModeSocket {
		return problem.New(problem.Refused, fmt.Sprintf("%s is not a socket", path), "Move it away and try again.")
	}
	conn, err := net.DialTimeout("unix", path, 5*time.Second)
	switch {
	case err == nil:
		conn.Close()
		return problem.New(problem.Refused, fmt.Sprintf("a daemon answers on %s already", path), "")
	case errors.Is(err, syscall.ECONNREFUSED):
		// connect(2): nobody listens, so no process holds it open any more.
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove the socket of a daemon that is gone: %w", err)
		}
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default: // EAGAIN, say: its queue is full, so somebody is there
		return fmt.Errorf("see whether a daemon answers: %w", err)
	}
}

// ownListener accepts connections of one user only. The socket's mode says the same; this holds
// also where the mode does not (a descriptor that was passed on).
type ownListener struct {
	*net.UnixListener
	uid  uint32
	peer func(*net.UnixConn) (uint32, error)
}

func (l *ownListener) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if uid, err := l.peer(c); err == nil && uid == l.uid {
			return c, nil
		}
		c.Close()
	}
}
