package initd

import (
	"bytes"
	"errors"
	"fmt"
	"io"
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

// until asks found again after each change of the devices, until it says true or [deviceTimeout] has passed.
func (w *waiter) until(found func() (bool, error)) (bool, error) {
	deadline := time.Now().Add(deviceTimeout)
	buf := make([]byte, 8192)
	for {
		ok, err := found()
		if ok || err != nil {
			return ok, err
		}
		left := time.Until(deadline)
		if left <= 0 {
			return false, nil
		}
		p := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(p, int(left/time.Millisecond)+1); err != nil && err != unix.EINTR {
			return false, fmt.Errorf("wait for devices: %w", err)
		}
		// What the message says does not matter, and neither does one that was lost (ENOBUFS): we look ourselves.
		_, _, _ = unix.Recvfrom(w.fd, buf, unix.MSG_DONTWAIT)
	}
}

// findBySerial waits for the disk with that serial.
func (w *waiter) findBySerial(serial string) (disk, error) {
	var d disk
	var last []disk
	ok, err := w.until(func() (ok bool, err error) {
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
