// Command testguest is the init of the machine that the backend contract boots: it loads the
// initramfs's modules, opens the card as a packet socket and answers the frames of package echo.
package main

import (
	"bufio"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"bromure.io/tui/vm/guest"
	"bromure.io/tui/vm/vmtest/echo"
)

func main() {
	console, err := os.OpenFile("/dev/console", os.O_WRONLY, 0)
	if err != nil {
		console = os.Stdout
	}
	if err := run(console); err != nil {
		fmt.Fprintln(console, "TESTGUEST-ERROR", err)
	}
	powerOff()
}

func run(console io.Writer) error {
	for _, m := range [][2]string{{"devtmpfs", "/dev"}, {"proc", "/proc"}, {"sysfs", "/sys"}} {
		if err := os.MkdirAll(m[1], 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m[0], m[1], m[0], 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("mount %s: %w", m[1], err)
		}
	}
	if err := loadModules(); err != nil {
		return err
	}
	nic, err := openNIC()
	if err != nil {
		// A probe has no card: print what proves that we run, and go.
		fmt.Fprintln(console, guest.ProbeMarker)
		return nil
	}
	return echo.Serve(nic, console, rand.Text(), echo.Host{
		Disks:    disks,
		Write:    write,
		PowerOff: powerOff,
		Reboot:   func() { _ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART) },
	})
}

func powerOff() { _ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF) }

func loadModules() error {
	f, err := os.Open(guest.ModulesOrder)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		name := strings.TrimSpace(lines.Text())
		if name == "" {
			continue
		}
		if err := loadModule(filepath.Join(filepath.Dir(guest.ModulesOrder), name)); err != nil {
			return fmt.Errorf("load %s: %w", name, err)
		}
	}
	return nil
}

func loadModule(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	return nil
}

// packetNIC is a packet(7) socket: a whole Ethernet frame a read or write.
type packetNIC int

func (fd packetNIC) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(int(fd), p)
		// The link may be down for a moment after it was set up.
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.ENETDOWN) {
			return n, err
		}
	}
}

func (fd packetNIC) Write(p []byte) (int, error) { return unix.Write(int(fd), p) }

func openNIC() (packetNIC, error) {
	ifi, err := net.InterfaceByName(guest.Interface)
	if err != nil {
		return 0, err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, int(htons(echo.EtherType)))
	if err != nil {
		return 0, err
	}
	var req struct { // struct ifreq of netdevice(7)
		name  [unix.IFNAMSIZ]byte
		flags uint16
		_     [22]byte
	}
	copy(req.name[:], guest.Interface)
	req.flags = unix.IFF_UP
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCSIFFLAGS, uintptr(unsafe.Pointer(&req))); errno != 0 {
		return 0, fmt.Errorf("set %s up: %w", guest.Interface, errno)
	}
	return packetNIC(fd), unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: htons(echo.EtherType), Ifindex: ifi.Index})
}

func htons(v uint16) uint16 { return v<<8 | v>>8 }

func disks() string {
	var b strings.Builder
	dirs, _ := filepath.Glob("/sys/block/vd*")
	for _, d := range dirs {
		size, mode := "0", "rw"
		if s := attr(d, "size"); s != "" { // in units of 512 bytes, whatever the block size
			var n int64
			fmt.Sscan(s, &n)
			size = fmt.Sprint(n * 512)
		}
		if attr(d, "ro") == "1" {
			mode = "ro"
		}
		fmt.Fprintf(&b, "%s %s %s\n", attr(d, "serial"), size, mode)
	}
	return b.String()
}

func attr(dir, name string) string {
	b, _ := os.ReadFile(filepath.Join(dir, name))
	return strings.TrimSpace(string(b))
}

func write(serial string, data []byte) error {
	dirs, _ := filepath.Glob("/sys/block/vd*")
	for _, d := range dirs {
		if attr(d, "serial") != serial {
			continue
		}
		f, err := os.OpenFile("/dev/"+filepath.Base(d), os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		if _, err := f.WriteAt(data, echo.WriteOffset); err != nil {
			return err
		}
		return f.Sync()
	}
	return fmt.Errorf("no disk has the serial %q", serial)
}
