package initd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// deviceTimeout bounds the wait for a device after its driver was loaded. Normally it is there at once.
const deviceTimeout = 20 * time.Second

// waiter waits for devices: the kernel tells of each new one on a netlink socket.
type waiter struct{ fd int }

// newWaiter begins to listen. What appears from now on is not missed.
func newWaiter() (*waiter, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("listen for devices: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1}); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("listen for devices: %w", err)
	}
	return &waiter{fd}, nil
}

func (w *waiter) close() { unix.Close(w.fd) }

// until asks found, and again after each change of the devices of a subsystem, until it says true or [deviceTimeout] has passed.
func (w *waiter) until(subsystem string, found func() (bool, error)) (bool, error) {
	deadline := time.Now().Add(deviceTimeout)
	for {
		ok, err := found()
		if ok || err != nil {
			return ok, err
		}
		changed, err := w.change(subsystem, deadline)
		if !changed || err != nil {
			return false, err
		}
	}
}

// change waits for a change of the devices of a subsystem, until the deadline.
func (w *waiter) change(subsystem string, deadline time.Time) (bool, error) {
	buf := make([]byte, 8192)
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return false, nil
		}
		p := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(p, int(left/time.Millisecond)+1); err != nil && err != unix.EINTR {
			return false, fmt.Errorf("wait for devices: %w", err)
		}
		n, _, err := unix.Recvfrom(w.fd, buf, unix.MSG_DONTWAIT)
		switch {
		case err == unix.ENOBUFS: // messages were lost
			return true, nil
		case err == nil && concerns(buf[:n], subsystem):
			return true, nil
		}
	}
}

// concerns says whether a message of the kernel is about a device of that subsystem. It is a header and assignments, each with a
// NUL at its end.
func concerns(msg []byte, subsystem string) bool {
	return bytes.Contains(msg, []byte("\x00SUBSYSTEM="+subsystem+"\x00"))
}

// findCard waits for the network card with that address and returns its index.
func (w *waiter) findCard(mac net.HardwareAddr) (index int, err error) {
	ok, err := w.until("net", func() (bool, error) {
		index, err = findCard("/sys/class/net", mac)
		return index != 0, err
	})
	if err == nil && !ok {
		err = fmt.Errorf("no network card with the address %s came up within %v", mac, deviceTimeout)
	}
	return index, err
}

// findDisk waits for the disk with that serial.
func (w *waiter) findDisk(serial string) (disk, error) {
	var d disk
	var last []disk
	ok, err := w.until("block", func() (ok bool, err error) {
		if last, err = listSerials("/sys/block"); err != nil {
			return false, err
		}
		d, ok, err = findDisk(last, serial)
		return ok, err
	})
	if err == nil && !ok {
		err = fmt.Errorf("no disk with the serial %q came up within %v; %s", serial, deviceTimeout, listDisks(last))
	}
	return d, err
}

// listSerials reads the virtio disks and their serials from /sys/block.
func listSerials(dir string) ([]disk, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "vd*"))
	if err != nil {
		return nil, err
	}
	var out []disk
	for _, p := range paths {
		b, err := readFile(filepath.Join(p, "serial"), 256)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look at disk %s: %w", filepath.Base(p), err)
		}
		out = append(out, disk{filepath.Base(p), string(bytes.TrimRight(b, "\n\x00"))})
	}
	return out, nil
}

// readHead reads what [classify] looks at: the first 4 KiB where those show an ext4, which is nearly always, else all of it.
func readHead(path string) ([]byte, error) {
	head, err := readFile(path, 4096)
	if err != nil {
		return nil, err
	}
	if c, _ := classify(head); c == ext4 {
		return head, nil
	}
	return readFile(path, headSize)
}

// readFile reads at most limit bytes of a file.
func readFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return b, nil
}
