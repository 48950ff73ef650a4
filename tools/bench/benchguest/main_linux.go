// Benchguest is the init of the machines that are measured without our guest program: its first act is
// to print that user space was reached. With bench.addr on the kernel's command line it also loads the
// image's drivers, gives the card that address and serves the three ports of the network figures.
package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"bromure.io/tui/vm/guest"
)

// Ports: what comes in is thrown away and counted; zeroes go out; what comes in goes back.
const (
	sinkPort   = 9000
	sourcePort = 9001
	echoPort   = 9002
)

func main() {
	fmt.Println("BENCH-USER-SPACE")
	if err := serve(); err != nil {
		fmt.Println("BENCH-ERROR", err)
	}
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func serve() error {
	for _, m := range [][2]string{{"proc", "/proc"}, {"sysfs", "/sys"}} {
		if err := unix.Mount(m[0], m[1], m[0], 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m[1], err)
		}
	}
	address, mtu, err := settings()
	if err != nil || !address.IsValid() {
		return err
	}
	if err := loadModules(); err != nil {
		return err
	}
	if err := setUp("lo", netip.MustParsePrefix("127.0.0.1/8"), 0); err != nil {
		return err
	}
	if err := setUp(guest.Interface, address, mtu); err != nil {
		return err
	}
	fail := make(chan error)
	for port, f := range map[int]func(net.Conn) error{sinkPort: sink, sourcePort: source, echoPort: echo} {
		l, err := net.Listen("tcp4", ":"+strconv.Itoa(port))
		if err != nil {
			return err
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					fail <- err
					return
				}
				go func() {
					if err := f(c); err != nil {
						fmt.Println("BENCH-ERROR", err)
					}
					c.Close()
				}()
			}
		}()
	}
	fmt.Println("BENCH-READY")
	return <-fail
}

// settings reads bench.addr=ADDRESS/BITS and bench.mtu=N from the kernel's command line.
func settings() (address netip.Prefix, mtu int, err error) {
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return address, 0, err
	}
	for _, word := range strings.Fields(string(line)) {
		if v, ok := strings.CutPrefix(word, "bench.addr="); ok {
			if address, err = netip.ParsePrefix(v); err != nil {
				return address, 0, err
			}
		}
		if v, ok := strings.CutPrefix(word, "bench.mtu="); ok {
			if mtu, err = strconv.Atoi(v); err != nil {
				return address, 0, err
			}
		}
	}
	return address, mtu, nil
}

func loadModules() error {
	f, err := os.Open(guest.ModulesOrder)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		name := strings.TrimSpace(lines.Text())
		if name == "" || strings.HasPrefix(name, "#") {
			continue
		}
		m, err := os.Open(filepath.Join(filepath.Dir(guest.ModulesOrder), name))
		if err != nil {
			return err
		}
		err = unix.FinitModule(int(m.Fd()), "", 0)
		m.Close()
		if err != nil && err != unix.EEXIST {
			return fmt.Errorf("load %s: %w", name, err)
		}
	}
	return lines.Err()
}

// setUp gives a card its address and turns it on (netdevice(7)). The card may be a moment late: the driver
// is loaded, and the device appears when it has been probed.
func setUp(name string, address netip.Prefix, mtu int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	for tries := 0; ; tries++ {
		if _, err := net.InterfaceByName(name); err == nil {
			break
		} else if tries == 500 {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	request := func(op uint, set func(*unix.Ifreq) error) error {
		r, err := unix.NewIfreq(name)
		if err != nil {
			return err
		}
		if err := set(r); err != nil {
			return err
		}
		if err := unix.IoctlIfreq(fd, op, r); err != nil {
			return fmt.Errorf("set up %s: %w", name, err)
		}
		return nil
	}
	mask := net.CIDRMask(address.Bits(), 32)
	addr := address.Addr().As4()
	if mtu > 0 {
		if err := request(unix.SIOCSIFMTU, func(r *unix.Ifreq) error { r.SetUint32(uint32(mtu)); return nil }); err != nil {
			return err
		}
	}
	if err := request(unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(addr[:]) }); err != nil {
		return err
	}
	if err := request(unix.SIOCSIFNETMASK, func(r *unix.Ifreq) error { return r.SetInet4Addr(mask) }); err != nil {
		return err
	}
	return request(unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error { r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING); return nil })
}

// sink takes everything and then says how much it was, so that the sender knows that all has arrived.
func sink(c net.Conn) error {
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{c}, make([]byte, 256<<10))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(c, n)
	return err
}

// source sends as many zeroes as the first line asks for.
func source(c net.Conn) error {
	var n int64
	if _, err := fmt.Fscanln(c, &n); err != nil {
		return err
	}
	return send(c, n)
}

func send(w io.Writer, n int64) error {
	buf := make([]byte, 256<<10)
	for n > 0 {
		k, err := w.Write(buf[:min(n, int64(len(buf)))])
		if err != nil {
			return err
		}
		n -= int64(k)
	}
	return nil
}

func echo(c net.Conn) error {
	_, err := io.Copy(c, c)
	return err
}
