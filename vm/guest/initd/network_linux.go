package initd

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"bromure.io/tui/vm/guest"
)

// loopback has the index 1 in every network namespace.
const loopback = 1

// disableIPv6 turns it off for the cards that there are and those to come: the segment does not speak it, and a
// program that tries it first would only wait. dir is where the kernel has the settings of interfaces.
func disableIPv6(dir string) error {
	for _, which := range []string{"all", "default"} {
		err := os.WriteFile(filepath.Join(dir, which, "disable_ipv6"), []byte("1"), 0)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("turn off IPv6: %w", err)
		}
	}
	return nil
}

// bringUp gives the card with that index its place in the segment, and opens the listener of the SSH server there: the host's
// connection waits in the kernel from then on, instead of being refused and tried again.
func (n network) bringUp(card int) (listener *os.File, err error) {
	err = send([]request{
		{"turn on the loopback", linkUp(1, loopback, 0)},
		{"turn on the network card", linkUp(2, card, n.mtu)},
		{"set the address", addAddress(3, card, n.prefix)},
		{"set the route", addDefaultRoute(4, card, n.gateway)},
	})
	if err != nil {
		return nil, err
	}
	return n.listen()
}

// findCard returns the index of the card with that address, or 0.
func findCard(dir string, mac net.HardwareAddr) (int, error) {
	cards, err := filepath.Glob(filepath.Join(dir, "*", "address"))
	if err != nil {
		return 0, err
	}
	for _, path := range cards {
		b, err := readFile(path, 256)
		if err != nil {
			continue
		}
		have, err := net.ParseMAC(string(bytes.TrimSpace(b)))
		if err != nil || !bytes.Equal(have, mac) {
			continue
		}
		b, err = readFile(filepath.Join(filepath.Dir(path), "ifindex"), 256)
		if err != nil {
			return 0, fmt.Errorf("look at the network card: %w", err)
		}
		index, err := strconv.Atoi(string(bytes.TrimSpace(b)))
		if err != nil || index <= 0 {
			return 0, fmt.Errorf("look at the network card: index %q", b)
		}
		return index, nil
	}
	return 0, nil
}

// listen opens the socket of the SSH server: on the card's own address, for what arrives by the card. The
// kernel takes connections from now on, whether or not a server runs yet.
func (n network) listen() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open the SSH socket: %w", err)
	}
	f := os.NewFile(uintptr(fd), "ssh listener")
	if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Port: guest.SSHPort, Addr: n.prefix.Addr().As4()})
	}
	if err == nil {
		err = unix.Listen(fd, 128)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("listen for SSH: %w", err)
	}
	return f, nil
}
