package qemu

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"bromure.io/tui/vm"
	"bromure.io/tui/vm/guest"
)

// probeLimit bounds a probe. Emulation prints the marker after 1.8 s, KVM after a fraction of that.
const probeLimit = 4 * time.Second

// notProved is the outcome of a probe that ran and failed; every other error says nothing about the
// accelerator.
type notProved struct{ why string }

func (e *notProved) Error() string { return e.why }

// probe boots a kernel and returns nil when its init has printed [guest.ProbeMarker] within the
// limit. The machine is gone when it returns.
func probe(ctx context.Context, host Host, acc vm.Accelerator, kernel, initrd string, limit time.Duration) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("make a console: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "console"), os.NewFile(uintptr(fds[1]), "console")
	defer ours.Close()
	defer theirs.Close()
	log, err := os.CreateTemp("", "bromure-probe-*.log")
	if err != nil {
		return err
	}
	defer os.Remove(log.Name())
	_ = log.Close()

	child, err := run(host.Binary, probeArgs(host, acc, kernel, initrd, probeCmdline(host.Arch)), log.Name(), theirs)
	if err != nil {
		return err
	}
	defer child.end()
	_ = theirs.Close()

	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = ours.SetReadDeadline(past) })
	defer stop()
	err = waitForMarker(ours)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded) && errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &notProved{fmt.Sprintf("it printed nothing of ours within %v", limit)}
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errTooMuch):
		return &notProved{err.Error()}
	}
	<-child.exited // its end of the console is closed
	words, readErr := tail(log.Name())
	if readErr != nil || clean(words) == "" {
		words = "QEMU ended: " + child.state.String()
	}
	return &notProved{clean(words)}
}

var errTooMuch = errors.New("it printed much and nothing of ours")

// maxProbeOutput is how much a probed machine may print before its marker, in bytes.
const maxProbeOutput = 4 << 20

// waitForMarker reads until the marker has come by.
func waitForMarker(r io.Reader) error {
	marker := []byte(guest.ProbeMarker)
	buf := make([]byte, 8<<10)
	kept := 0 // the end of what was read before: the marker may be split
	for total := 0; total < maxProbeOutput; {
		n, err := r.Read(buf[kept:])
		seen := buf[:kept+n]
		if bytes.Contains(seen, marker) {
			return nil
		}
		if err != nil {
			return err
		}
		total += n
		kept = copy(buf, seen[max(0, len(seen)-len(marker)+1):])
	}
	return errTooMuch
}
