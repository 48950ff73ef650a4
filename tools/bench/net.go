package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"bromure.io/tui/internal/layout"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/guest"
	"bromure.io/tui/vm/netstack"
	"bromure.io/tui/vm/qemu"
)

// Ports of benchguest.
const (
	sinkPort   = 9000
	sourcePort = 9001
	echoPort   = 9002
)

const (
	transfer   = 128 << 20 // bytes of one throughput run
	roundTrips = 300       // of one latency run
)

// dialer connects to a port of a guest.
type dialer func(ctx context.Context, port uint16) (net.Conn, error)

// takeNet compares our way between guest and host, a machine of our backend on a segment of our stack, with QEMU's user
// networking. Both run the same guest, at the same time; both connect from host to guest.
func takeNet(ctx context.Context, b *bench) (figures []figure, err error) {
	in, err := b.newInstall()
	if err != nil {
		return nil, err
	}
	accel, err := in.accelerator(ctx)
	if err != nil {
		return nil, errors.Join(err, in.close())
	}
	if err := in.close(); err != nil {
		return nil, err
	}
	boots, err := b.newBare(ctx)
	if err != nil {
		return nil, err
	}
	ours, stopOurs, err := b.onSegment(ctx, boots, accel)
	if err != nil {
		return nil, fmt.Errorf("boot the guest on our segment: %w", err)
	}
	defer func() { err = errors.Join(err, stopOurs()) }()
	ref, stopRef, err := b.onUserNet(ctx, boots, accel)
	if err != nil {
		return nil, fmt.Errorf("boot the guest on user networking: %w", err)
	}
	defer stopRef()

	for _, m := range []struct {
		name string
		unit unit
		n    int
		aim  aim
		take func(context.Context, dialer) (float64, error)
	}{
		{"round trip of a byte", microseconds, b.n, aim{}, roundTrip},
		{"host to guest, one TCP connection", throughput, b.n, aim{}, upload},
		{"guest to host, one TCP connection", throughput, b.n, aim{}, download},
	} {
		f := figure{name: m.name, unit: m.unit, against: "QEMU user networking", aim: m.aim}
		err := f.alternate(ctx, m.n,
			func(ctx context.Context) (float64, error) { return m.take(ctx, ours) },
			func(ctx context.Context) (float64, error) { return m.take(ctx, ref) })
		if err != nil {
			return figures, err
		}
		figures = append(figures, f)
	}
	return figures, nil
}

// roundTrip is the mean over many, in microseconds.
func roundTrip(ctx context.Context, dial dialer) (float64, error) {
	c, err := dial(ctx, echoPort)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	var b [1]byte
	start := time.Now()
	for range roundTrips {
		if _, err := c.Write(b[:]); err != nil {
			return 0, err
		}
		if _, err := io.ReadFull(c, b[:]); err != nil {
			return 0, err
		}
	}
	return float64(time.Since(start).Microseconds()) / roundTrips, nil
}

// upload sends, and ends when the guest says that it has everything.
func upload(ctx context.Context, dial dialer) (float64, error) {
	c, err := dial(ctx, sinkPort)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	start := time.Now()
	if _, err := io.CopyN(c, zeroes{}, transfer); err != nil {
		return 0, err
	}
	half, ok := c.(interface{ CloseWrite() error })
	if !ok {
		return 0, fmt.Errorf("a %T cannot be half-closed", c)
	}
	if err := half.CloseWrite(); err != nil {
		return 0, err
	}
	var n int64
	if _, err := fmt.Fscanln(c, &n); err != nil || n != transfer {
		return 0, fmt.Errorf("the guest took %d of %d bytes: %w", n, transfer, err)
	}
	return rate(start), nil
}

// download asks the guest to send.
func download(ctx context.Context, dial dialer) (float64, error) {
	c, err := dial(ctx, sourcePort)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	start := time.Now()
	if _, err := fmt.Fprintln(c, transfer); err != nil {
		return 0, err
	}
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{c}, make([]byte, 256<<10))
	if err != nil || n != transfer {
		return 0, fmt.Errorf("the guest sent %d of %d bytes: %w", n, transfer, err)
	}
	return rate(start), nil
}

// rate is in MB of 10^6 bytes a second.
func rate(start time.Time) float64 { return transfer / 1e6 / time.Since(start).Seconds() }

type zeroes struct{}

func (zeroes) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// onSegment boots the guest by our backend, on a segment of our stack.
func (b *bench) onSegment(ctx context.Context, boots *bare, accel string) (dialer, func() error, error) {
	dir, err := os.MkdirTemp("", "brm-net-") // short: sockets go in there
	if err != nil {
		return nil, nil, err
	}
	undo := func() error { return os.RemoveAll(dir) }
	lock, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, nil, errors.Join(err, undo())
	}
	defer lock.Close()
	mac := vm.NewMAC()
	spec := vm.Spec{
		Workspace: vm.Workspace{
			Version: vm.ConfigVersion, ID: vm.NewID(), Name: "bench", MAC: mac, CPUs: machineCPUs, MemoryMiB: machineGB << 10, HomeMiB: vm.DefaultHomeMiB,
		},
		Accelerator: vm.Accelerator(accel),
		Kernel:      boots.kernel, Initrd: boots.full,
		Cmdline: fmt.Sprintf("console=ttyS0 quiet panic=-1 bench.addr=%s/%d", guest.GuestAddress, guest.PrefixLength),
		Dir:     layout.MachineDir(dir), Log: filepath.Join(dir, "log"), Lock: lock,
	}
	machine, err := qemu.New(qemu.Config{Getenv: os.Getenv}).Start(ctx, spec)
	if err != nil {
		return nil, nil, errors.Join(err, undo())
	}
	stop := func() error { return errors.Join(machine.Kill(context.Background()), undo()) }
	segment, err := netstack.New(netstack.Config{GuestMAC: string(mac)})
	if err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	stop = func() error {
		return errors.Join(segment.Close(), machine.Kill(context.Background()), undo())
	}
	if err := errors.Join(segment.Attach(machine.NIC()), ready(ctx, machine.Serial())); err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	return segment.Dial, stop, nil
}

// onUserNet boots the guest by a bare line on QEMU's own network, with a forwarded port each.
func (b *bench) onUserNet(ctx context.Context, boots *bare, accel string) (dialer, func(), error) {
	netdev := "user,id=n,restrict=on"
	forwarded := map[uint16]string{}
	for _, port := range []uint16{sinkPort, sourcePort, echoPort} {
		addr, err := freeAddress()
		if err != nil {
			return nil, nil, err
		}
		forwarded[port] = addr
		netdev += fmt.Sprintf(",hostfwd=tcp:%s-:%d", addr, port)
	}
	ctx, stop := context.WithCancel(ctx)
	cmd := boots.command(ctx, accel, boots.full, "bench.addr=10.0.2.15/24", "-netdev", netdev, "-device", "virtio-net-pci,netdev=n")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		stop()
		return nil, nil, err
	}
	end := func() {
		stop()
		_ = cmd.Wait() // killed: nothing to learn
	}
	if err := ready(ctx, out); err != nil {
		end()
		return nil, nil, err
	}
	return func(ctx context.Context, port uint16) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp4", forwarded[port])
	}, end, nil
}

// freeAddress finds a port of the loopback that is free now.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// ready reads the console until benchguest serves, and goes on reading behind the caller's back: a machine whose
// console nobody reads stands still.
func ready(ctx context.Context, console io.Reader) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	result := make(chan error, 1)
	go func() {
		var said []string
		for lines := bufio.NewScanner(console); lines.Scan(); {
			line := lines.Text()
			said = append(said[max(0, len(said)-10):], line)
			if strings.Contains(line, "BENCH-READY") {
				result <- nil
				_, _ = io.Copy(io.Discard, console)
				return
			}
		}
		result <- fmt.Errorf("the guest does not serve: %s", strings.Join(said, "; "))
	}()
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the guest does not serve: %w", ctx.Err())
	}
}
