// Package link is the host's connection to the guest of one machine: SSH over the private segment, kept open as long as the machine
// runs, so that a command costs no handshake. It starts programs, attaches to consoles, makes calls and forwards
// ports. vm/guest has the words, vm/guest/sshd is the other end.
//
// The guest is hostile. Nothing here waits for it without a limit, keeps more of what it sends than a limit, or shows its
// text with control bytes. A guest that breaks the rules loses the link, which ends everything on it. Read this file
// first, then session.go.
package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"

	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm/guest"
)

// Limits in time. An emulated guest on a busy host may be silent for some seconds; none of these is near what
// an honest one needs.
const (
	handshakeTimeout = 30 * time.Second
	openTimeout      = 20 * time.Second // until the guest accepts a channel
	keepAliveEvery   = 10 * time.Second
	deadAfter        = 45 * time.Second // without an answer that is due
)

// maxText bounds text of the guest's in errors, in bytes.
const maxText = 1024

var (
	// ErrHostKey: what answered is not the guest of this boot.
	ErrHostKey = errors.New("the guest's host key is not the one that was made for this boot")
	// ErrLogin: the guest does not let us in.
	ErrLogin = errors.New("the guest refused this boot's key")
	// ErrLost: the link is gone, and with it everything on it.
	ErrLost = errors.New("the connection to the guest is lost")
)

// Link is one connection to a guest. Its methods may be called from any goroutine.
type Link struct {
	conn ssh.Conn
	held atomic.Int32 // > 0: silence of the guest is expected

	mu   sync.Mutex
	err  error
	done chan struct{}
	wg   sync.WaitGroup
}

// Option changes how a link is made.
type Option func(*ssh.ClientConfig)

// Emulated says whether the guest's CPUs are emulated. AES instructions are slow then, and what is fast otherwise
// costs more than a cipher made of additions: 0.69 against 0.57 s of the emulator's time per MiB that the guest sends, 13
// against 12 ms per call (QEMU 7.2, -cpu max, on a busy host; docs/guest-channel.md).
func Emulated(yes bool) Option {
	return func(c *ssh.ClientConfig) {
		if yes {
			c.Ciphers = []string{ssh.CipherChaCha20Poly1305, ssh.CipherAES128GCM}
		}
	}
}

// Dial connects to a guest: dial gives the connection, keys say who both sides are, user is who programs run as
// (guest.User). It tries once. ctx bounds it; the link itself lives until [Link.Close] or until it is lost.
func Dial(ctx context.Context, dial func(context.Context) (net.Conn, error), keys Keys, user string, opts ...Option) (*Link, error) {
	if keys.IsZero() {
		return nil, errors.New("connect to the guest: no keys")
	}
	nc, err := dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to the guest: %w", err)
	}
	deadline := time.Now().Add(handshakeTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	_ = nc.SetDeadline(deadline)
	// Closing is what ends a handshake on any kind of connection.
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	timer := time.AfterFunc(time.Until(deadline), func() { nc.Close() })
	conn, chans, reqs, err := ssh.NewClientConn(nc, "guest", clientConfig(keys, user, opts))
	timer.Stop()
	if !stop() && err == nil {
		conn.Close()
		err = ctx.Err()
	}
	if err != nil {
		nc.Close()
		return nil, dialError(ctx, err)
	}
	_ = nc.SetDeadline(time.Time{})

	l := &Link{conn: conn, done: make(chan struct{})}
	l.wg.Go(func() {
		for c := range chans {
			_ = c.Reject(ssh.Prohibited, "the guest opens no channels")
		}
	})
	l.wg.Go(func() { ssh.DiscardRequests(reqs) })
	l.wg.Go(l.keepAlive)
	l.wg.Go(func() { l.fail(conn.Wait()) })
	return l, nil
}

// Await dials until the guest answers or ctx is done. It gives up at once when the wrong one answers.
func Await(ctx context.Context, dial func(context.Context) (net.Conn, error), keys Keys, user string, opts ...Option) (*Link, error) {
	const first, most = 20 * time.Millisecond, 250 * time.Millisecond
	for wait := first; ; wait = min(2*wait, most) {
		l, err := Dial(ctx, dial, keys, user, opts...)
		if err == nil || errors.Is(err, ErrHostKey) || errors.Is(err, ErrLogin) || keys.IsZero() {
			return l, err
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, err
		}
	}
}

// clientConfig accepts one host key and one set of algorithms: our own server is the only peer. The client's order decides.
func clientConfig(keys Keys, user string, opts []Option) *ssh.ClientConfig {
	host := keys.pair().host.PublicKey()
	c := &ssh.ClientConfig{
		Config: ssh.Config{
			KeyExchanges: []string{ssh.KeyExchangeCurve25519},
			Ciphers:      []string{ssh.CipherAES128GCM, ssh.CipherChaCha20Poly1305},
			MACs:         []string{ssh.HMACSHA256ETM}, // not used by these ciphers
		},
		User:              user,
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(keys.pair().client)},
		HostKeyAlgorithms: []string{ssh.KeyAlgoED25519},
		ClientVersion:     "SSH-2.0-bromure",
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			if !slices.Equal(key.Marshal(), host.Marshal()) {
				return ErrHostKey
			}
			return nil
		},
	}
	for _, o := range opts {
		o(c)
	}
	return c
}

// dialError says what went wrong in a handshake.
func dialError(ctx context.Context, err error) error {
	const act = "connect to the guest"
	if errors.Is(err, ErrHostKey) {
		return problem.Wrap(problem.Unverified, ErrHostKey, act,
			"Something else answers on the guest's address. Stop the workspace and start it again.")
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", act, context.Cause(ctx))
	}
	if isAuthError(err) {
		return fmt.Errorf("%s: %w", act, ErrLogin)
	}
	return fmt.Errorf("%s: %w", act, cleaned(err))
}

// keepAlive asks the guest for a sign of life now and then.
func (l *Link) keepAlive() {
	tick := time.NewTicker(keepAliveEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-l.done:
			return
		}
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			// Any answer is one; an error means that the connection is gone, which is noticed elsewhere.
			_, _, _ = l.conn.SendRequest("keepalive@openssh.com", true, nil)
		}()
		l.expect(answered, "is silent")
	}
}

// expect returns when c is closed or the link is lost. A guest that lets it wait too long loses the link.
func (l *Link) expect(c <-chan struct{}, how string) {
	t := time.NewTimer(deadAfter)
	defer t.Stop()
	for {
		select {
		case <-c:
			return
		case <-l.done:
			return
		case <-t.C:
			if l.held.Load() == 0 {
				l.fail(fmt.Errorf("the guest %s for %v", how, deadAfter))
				return
			}
			t.Reset(deadAfter)
		}
	}
}

// Hold says that the guest may be silent, because its CPUs are paused, until release is called. Calls and
// new programs still have their own timeouts.
func (l *Link) Hold() (release func()) {
	l.held.Add(1)
	var once sync.Once
	return func() { once.Do(func() { l.held.Add(-1) }) }
}

// fail ends the link for a reason; the first one counts.
func (l *Link) fail(err error) {
	l.mu.Lock()
	select {
	case <-l.done:
	default:
		if err == nil {
			err = errors.New("closed by the guest")
		}
		l.err = fmt.Errorf("%w: %w", ErrLost, cleaned(err))
		close(l.done)
	}
	l.mu.Unlock()
	l.conn.Close()
}

// lost reports whether a channel that ended did so because the link did: the library closes the channels
// first. It is [Link.Err], or nil when the guest still answers.
func (l *Link) lost() error {
	if err := l.Err(); err != nil {
		return err
	}
	answered := make(chan struct{})
	var failed error
	go func() {
		defer close(answered)
		_, _, failed = l.conn.SendRequest("keepalive@openssh.com", true, nil)
	}()
	l.expect(answered, "is silent")
	select {
	case <-answered:
		if failed == nil {
			return nil
		}
	default:
	}
	_ = l.conn.Close()
	<-l.done
	return l.Err()
}

// Done is closed when the link is gone.
func (l *Link) Done() <-chan struct{} { return l.done }

// Err is why the link is gone, nil while it is not. It is an [ErrLost].
func (l *Link) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Close ends the link and what runs on it; consoles live on in the guest.
func (l *Link) Close() error {
	l.fail(net.ErrClosed)
	l.wg.Wait()
	return nil
}

// channel is an open SSH channel and its requests.
type channel struct {
	ssh.Channel
	reqs <-chan *ssh.Request
}

// open opens a channel. ctx and a timeout bound it.
func (l *Link) open(ctx context.Context, kind string, extra []byte) (channel, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	type result struct {
		channel
		err error
	}
	got := make(chan result, 1)
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		ch, reqs, err := l.conn.OpenChannel(kind, extra)
		got <- result{channel{ch, reqs}, err}
	}()
	select {
	case r := <-got:
		if r.err == nil {
			return r.channel, nil
		}
		if err := l.Err(); err != nil {
			return channel{}, err
		}
		if e, ok := errors.AsType[*ssh.OpenChannelError](r.err); ok {
			return channel{}, errors.New(guest.Clean(e.Message, maxText))
		}
		return channel{}, cleaned(r.err)
	case <-ctx.Done():
		go func() {
			l.expect(answered, "has not answered a request")
			if r := <-got; r.err == nil { // the link's end ends OpenChannel too
				l.discard(r.channel)
			}
		}()
		return channel{}, fmt.Errorf("the guest did not answer in time: %w", context.Cause(ctx))
	}
}

// discard closes a channel and sees to it that the guest does so too.
func (l *Link) discard(c channel) {
	_ = c.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ssh.DiscardRequests(c.reqs)
	}()
	l.expect(ended, "has not closed a channel")
}
