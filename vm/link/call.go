package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"golang.org/x/crypto/ssh"

	"bromure.io/tui/vm/guest"
)

// How long calls may take. The quick ones take a millisecond in an idle guest and a second in a busy emulated one.
const (
	callTimeout  = 30 * time.Second // where neither the caller nor the table below says less
	quickTimeout = 10 * time.Second
	syncTimeout  = 2 * time.Minute
	trimTimeout  = 5 * time.Minute
)

// Call makes a call and reads its result into result, which may be nil. An error of the guest's is a
// [*CallError]. Without a deadline in ctx it takes at most 30 seconds.
func (l *Link) Call(ctx context.Context, method guest.Method, params, result any) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, callTimeout)
		defer cancel()
	}
	req, err := encode(guest.CallRequest{Method: method, Params: params})
	if err != nil {
		return fmt.Errorf("%s in the guest: %w", method, err)
	}
	ch, err := l.open(ctx, guest.CallChannel, req)
	if err != nil {
		return fmt.Errorf("%s in the guest: %w", method, err)
	}
	go ssh.DiscardRequests(ch.reqs)
	type answer struct {
		b   []byte
		err error
	}
	got := make(chan answer, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		b, err := io.ReadAll(io.LimitReader(ch, guest.MaxCall+1))
		got <- answer{b, err}
	}()
	defer ch.Close()
	select {
	case a := <-got:
		switch {
		case a.err != nil:
			return fmt.Errorf("%s in the guest: %w", method, cleaned(a.err))
		case len(a.b) == 0:
			if err := l.Err(); err != nil {
				return fmt.Errorf("%s in the guest: %w", method, err)
			}
			return fmt.Errorf("%s in the guest: %w", method, errors.New("no answer"))
		}
		return parseReply(method, a.b, result)
	case <-ctx.Done():
		// Its end must be acknowledged, or the link is given up.
		go l.expect(ended, "has not ended a call")
		return fmt.Errorf("%s in the guest: %w", method, context.Cause(ctx))
	}
}

// call is Call with a result and a limit.
func call[T any](ctx context.Context, l *Link, limit time.Duration, method guest.Method, params any) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var result T
	err := l.Call(ctx, method, params, &result)
	return result, err
}

// Hello asks the guest who it is.
func (l *Link) Hello(ctx context.Context) (guest.Hello, error) {
	h, err := call[guest.Hello](ctx, l, quickTimeout, guest.MethodHello, nil)
	h.Kernel, h.BootID = guest.Clean(h.Kernel, 256), guest.Clean(h.BootID, 64)
	return h, err
}

// Stats reads the guest's load.
func (l *Link) Stats(ctx context.Context) (guest.Stats, error) {
	return call[guest.Stats](ctx, l, quickTimeout, guest.MethodStats, nil)
}

// maxPorts bounds the list of ports.
const maxPorts = 4096

// Ports lists the guest's listening sockets.
func (l *Link) Ports(ctx context.Context) ([]guest.Port, error) {
	ports, err := call[[]guest.Port](ctx, l, quickTimeout, guest.MethodPorts, nil)
	if len(ports) > maxPorts {
		ports = ports[:maxPorts]
	}
	for i := range ports {
		p := &ports[i]
		p.Proto, p.Address, p.Process = guest.Clean(p.Proto, 16), guest.Clean(p.Address, 64), guest.Clean(p.Process, 64)
	}
	return ports, err
}

// SetClock sets the guest's clock and returns what it reads then.
func (l *Link) SetClock(ctx context.Context, now time.Time) (time.Time, error) {
	c, err := call[guest.Clock](ctx, l, quickTimeout, guest.MethodClock, guest.Clock{Time: now})
	return c.Time, err
}

// Trim gives unused blocks of both disks back to the host.
func (l *Link) Trim(ctx context.Context) (guest.Trimmed, error) {
	return call[guest.Trimmed](ctx, l, trimTimeout, guest.MethodTrim, nil)
}

// Sync writes everything to the disks.
func (l *Link) Sync(ctx context.Context) error {
	_, err := call[any](ctx, l, syncTimeout, guest.MethodSync, nil)
	return err
}

// PowerOff begins an orderly shutdown. It returns when the guest has begun.
func (l *Link) PowerOff(ctx context.Context, grace time.Duration) error {
	_, err := call[any](ctx, l, quickTimeout, guest.MethodPowerOff, guest.PowerOff{Grace: grace})
	return err
}

// Reboot is PowerOff, after which the guest starts again.
func (l *Link) Reboot(ctx context.Context, grace time.Duration) error {
	_, err := call[any](ctx, l, quickTimeout, guest.MethodReboot, guest.PowerOff{Grace: grace})
	return err
}

// Consoles lists the guest's consoles.
func (l *Link) Consoles(ctx context.Context) ([]guest.ConsoleInfo, error) {
	list, err := call[[]guest.ConsoleInfo](ctx, l, quickTimeout, guest.MethodConsoles, nil)
	for i := range list {
		c := &list[i]
		c.Name, c.Command, c.Size = guest.Clean(c.Name, 64), guest.Clean(c.Command, 256), c.Size.Clamp()
	}
	return list, err
}
