package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm/guest"
)

// buffer is one direction of an in-memory connection. It has room for everything, as both sides of an SSH
// handshake write before they read.
type buffer struct {
	mu     sync.Mutex
	cond   sync.Cond
	b      []byte
	closed bool
}

func newBuffer() *buffer {
	b := &buffer{}
	b.cond.L = &b.mu
	return b
}

func (b *buffer) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.b) == 0 {
		if b.closed {
			return 0, io.EOF
		}
		b.cond.Wait()
	}
	n := copy(p, b.b)
	b.b = b.b[n:]
	return n, nil
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, io.ErrClosedPipe
	}
	b.b = append(b.b, p...)
	b.cond.Broadcast()
	return len(p), nil
}

func (b *buffer) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.cond.Broadcast()
}

// memConn is one end of an in-memory connection, which works within synctest.
type memConn struct {
	r, w *buffer
}

func memPipe() (net.Conn, net.Conn) {
	a, b := newBuffer(), newBuffer()
	return memConn{a, b}, memConn{b, a}
}

func (c memConn) Read(p []byte) (int, error)  { return c.r.Read(p) }
func (c memConn) Write(p []byte) (int, error) { return c.w.Write(p) }
func (c memConn) Close() error                { c.r.close(); c.w.close(); return nil }

func (memConn) LocalAddr() net.Addr              { return textAddr("mem") }
func (memConn) RemoteAddr() net.Addr             { return textAddr("mem") }
func (memConn) SetDeadline(time.Time) error      { return nil }
func (memConn) SetReadDeadline(time.Time) error  { return nil }
func (memConn) SetWriteDeadline(time.Time) error { return nil }

// evilGuest is what a test makes of a guest after an honest handshake.
type evilGuest func(conn *ssh.ServerConn, chans <-chan ssh.NewChannel, reqs <-chan *ssh.Request)

// meet connects a link to an evil guest with these keys; other keys may be given to the guest.
func meet(t *testing.T, keys, theirs Keys, evil evilGuest) (*Link, error) {
	t.Helper()
	ours, guests := memPipe()
	cfg := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if string(key.Marshal()) != string(theirs.pair().client.PublicKey().Marshal()) {
			return nil, errors.New("no")
		}
		return nil, nil
	}}
	cfg.AddHostKey(theirs.pair().host)
	go func() {
		defer guests.Close()
		conn, chans, reqs, err := ssh.NewServerConn(guests, cfg)
		if err != nil {
			return
		}
		evil(conn, chans, reqs)
	}()
	return Dial(t.Context(), func(context.Context) (net.Conn, error) { return ours, nil }, keys, guest.User)
}

func mustKeys(t testing.TB) Keys {
	t.Helper()
	k, err := NewKeys()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// within runs f with a link to an evil guest, in made-up time.
func within(t *testing.T, evil evilGuest, f func(t *testing.T, l *Link)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		keys := mustKeys(t)
		l, err := meet(t, keys, keys, evil)
		if err != nil {
			t.Fatal(err)
		}
		f(t, l)
		l.Close()
		if !errors.Is(l.Err(), ErrLost) {
			t.Errorf("after close: %v", l.Err())
		}
	})
}

func quiet(reqs <-chan *ssh.Request) { go ssh.DiscardRequests(reqs) }

func TestWrongKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, other := mustKeys(t), mustKeys(t)
		nothing := func(conn *ssh.ServerConn, _ <-chan ssh.NewChannel, _ <-chan *ssh.Request) { conn.Close() }
		_, err := meet(t, keys, other, nothing)
		if !errors.Is(err, ErrHostKey) || problem.KindOf(err) != problem.Unverified || problem.HintOf(err) == "" {
			t.Errorf("another host key: %v", err)
		}
		mixed := Keys{func() pair {
			p := keys.pair()
			p.client = other.pair().client
			return p
		}}
		if _, err := meet(t, keys, mixed, nothing); !errors.Is(err, ErrLogin) {
			t.Errorf("another client key: %v", err)
		}
		if _, err := Dial(t.Context(), nil, Keys{}, guest.User); err == nil {
			t.Error("dialled without keys")
		}
		// Await gives up on a wrong key, and only on that, before its time.
		tries := 0
		dial := func(context.Context) (net.Conn, error) {
			tries++
			if tries < 4 {
				return nil, errors.New("not yet")
			}
			ours, guests := memPipe()
			cfg := &ssh.ServerConfig{NoClientAuth: true}
			cfg.AddHostKey(other.pair().host)
			go func() { _, _, _, _ = ssh.NewServerConn(guests, cfg); guests.Close() }()
			return ours, nil
		}
		if _, err := Await(t.Context(), dial, keys, guest.User); !errors.Is(err, ErrHostKey) || tries != 4 {
			t.Errorf("await: %v after %d tries", err, tries)
		}
	})
}

func TestDialIsBounded(t *testing.T) {
	for name, ctxFor := range map[string]time.Duration{"by its caller": time.Second, "by itself": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), ctxFor)
				defer cancel()
				begin := time.Now()
				_, err := Dial(ctx, func(context.Context) (net.Conn, error) {
					ours, guests := memPipe()
					t.Cleanup(func() { guests.Close() })
					return ours, nil // and not a word
				}, mustKeys(t), guest.User)
				if d := time.Since(begin); err == nil || d > handshakeTimeout {
					t.Errorf("%v after %v", err, d)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		refuse := errors.New("connection refused")
		_, err := Await(ctx, func(context.Context) (net.Conn, error) { return nil, refuse }, mustKeys(t), guest.User)
		if !errors.Is(err, refuse) {
			t.Errorf("await: %v", err)
		}
	})
}

// A guest that answers nothing any more loses the link, unless it is paused.
func TestSilentGuest(t *testing.T) {
	mute := func(conn *ssh.ServerConn, chans <-chan ssh.NewChannel, reqs <-chan *ssh.Request) { _ = conn.Wait() }
	within(t, mute, func(t *testing.T, l *Link) {
		release := l.Hold()
		time.Sleep(time.Hour)
		if err := l.Err(); err != nil {
			t.Fatalf("while it is held: %v", err)
		}
		release()
		begin := time.Now()
		<-l.Done()
		if d := time.Since(begin); d > 2*deadAfter || !strings.Contains(l.Err().Error(), "silent") {
			t.Errorf("%v after %v", l.Err(), d)
		}
		if _, err := l.Exec(t.Context(), guest.Exec{Argv: []string{"true"}}); !errors.Is(err, ErrLost) {
			t.Errorf("exec: %v", err)
		}
	})
}

// Channels that are never opened, and calls that are never answered, end at their limits.
func TestUnansweredRequests(t *testing.T) {
	deaf := func(conn *ssh.ServerConn, chans <-chan ssh.NewChannel, reqs <-chan *ssh.Request) {
		quiet(reqs)
		for range chans {
		}
	}
	within(t, deaf, func(t *testing.T, l *Link) {
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.Call(ctx, guest.MethodHello, nil, nil); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > time.Second {
			t.Errorf("call: %v after %v", err, time.Since(begin))
		}
		begin = time.Now()
		if _, err := l.Exec(t.Context(), guest.Exec{Argv: []string{"true"}}); err == nil || time.Since(begin) > openTimeout {
			t.Errorf("exec: %v after %v", err, time.Since(begin))
		}
		<-l.Done() // what was never answered costs the link
	})
	accepts := func(conn *ssh.ServerConn, chans <-chan ssh.NewChannel, reqs <-chan *ssh.Request) {
		quiet(reqs)
		for c := range chans {
			_, r, _ := c.Accept()
			quiet(r)
		}
	}
	within(t, accepts, func(t *testing.T, l *Link) {
		begin := time.Now()
		if _, err := l.Stats(t.Context()); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > quickTimeout {
			t.Errorf("stats: %v after %v", err, time.Since(begin))
		}
		if l.Err() != nil {
			t.Errorf("an honest end of a call cost the link: %v", l.Err())
		}
	})
}

// reply is a guest that answers every call with these bytes.
func reply(b []byte) evilGuest {
	return func(conn *ssh.ServerConn, chans <-chan ssh.NewChannel, reqs <-chan *ssh.Request) {
		quiet(reqs)
		for c := range chans {
			ch, r, _ := c.Accept()
			quiet(r)
			go func() {
				_, _ = ch.Write(b)
				ch.Close()
			}()
		}
	}
}

func TestEvilReplies(t *testing.T) {
	long := strings.Repeat("x", maxText*2)
	for name, b := range map[string]string{
		"nothing":    "",
		"no JSON":    "\x1b]0;owned\a",
		"other type": `{"result":"\u001b[2J"}`,
		"too large":  `{"result":"` + strings.Repeat("x", guest.MaxCall) + `"}`,
		"deep":       strings.Repeat("[", 500000),
		"error":      `{"error":"\u001b[31m\u202eevil\n` + long + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			within(t, reply([]byte(b)), func(t *testing.T, l *Link) {
				_, err := l.Stats(t.Context())
				if err == nil {
					t.Fatal("it was accepted")
				}
				if s := err.Error(); strings.ContainsAny(s, "\x1b\n\u202e\a") || len(s) > maxText+200 {
					t.Errorf("error of %d bytes: %q", len(s), s)
				}
			})
		})
	}
	evil, _ := json.Marshal(guest.CallReply{Result: []guest.Port{{Process: "\x1b[2Jevil\n", Address: long}}})
	within(t, reply(evil), func(t *testing.T, l *Link) {
		ports, err := l.Ports(t.Context())
		if err != nil || len(ports) != 1 || ports[0].Process != "?[2Jevil?" || len(ports[0].Address) > 100 {
			t.Errorf("%+v, %v", ports, err)
		}
	})
}

// onSession is a guest that does something evil with every session.
func onSession(f func(ch ssh.Channel)) evilGuest {
	return func(conn *ssh.ServerConn, chans <-chan ssh.NewChannel, reqs <-chan *ssh.Request) {
		quiet(reqs)
		for c := range chans {
			ch, r, _ := c.Accept()
			go func() {
				for q := range r {
					_ = q.Reply(true, nil)
					go f(ch)
				}
			}()
		}
	}
}

func TestEvilSessions(t *testing.T) {
	status := func(ch ssh.Channel, b []byte) { _, _ = ch.SendRequest("exit-status", false, b) }
	tests := map[string]struct {
		guest func(ch ssh.Channel)
		exit  guest.Exit
		err   string
	}{
		"closes at once":      {func(ch ssh.Channel) { ch.Close() }, guest.Exit{Code: -1}, ErrClosed.Error()},
		"malformed status":    {func(ch ssh.Channel) { status(ch, []byte{1}); ch.Close() }, guest.Exit{Code: -1}, ErrClosed.Error()},
		"impossible status":   {func(ch ssh.Channel) { status(ch, []byte{1, 0, 0, 0}); ch.Close() }, guest.Exit{Code: -1}, ErrClosed.Error()},
		"two statuses":        {func(ch ssh.Channel) { status(ch, []byte{0, 0, 0, 3}); status(ch, []byte{0, 0, 0, 4}); ch.Close() }, guest.Exit{Code: 3}, ""},
		"status and no close": {func(ch ssh.Channel) { status(ch, []byte{0, 0, 0, 3}) }, guest.Exit{Code: 3}, ""},
		"reason with controls": {func(ch ssh.Channel) {
			_, _ = ch.SendRequest(guest.ExitErrorName, false, []byte("\x1b[2Jno\nway"))
			ch.Close()
		}, guest.Exit{Code: -1}, "?[2Jno?way"},
		"many requests":         {func(ch ssh.Channel) { many(ch); status(ch, []byte{0, 0, 0, 0}); ch.Close() }, guest.Exit{}, ""},
		"more input, and again": {func(ch ssh.Channel) { eow(ch); eow(ch); status(ch, []byte{0, 0, 0, 0}); ch.Close() }, guest.Exit{}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			within(t, onSession(tt.guest), func(t *testing.T, l *Link) {
				s, err := l.Exec(t.Context(), guest.Exec{Argv: []string{"true"}})
				if err != nil {
					t.Fatal(err)
				}
				exit, err := s.Wait()
				if exit != tt.exit || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
					t.Errorf("%+v, %v", exit, err)
				}
			})
		})
	}
}

func many(ch ssh.Channel) {
	for i := range 1000 {
		_, _ = ch.SendRequest(fmt.Sprint("x", i), i%2 == 0, make([]byte, 1000))
	}
}

func eow(ch ssh.Channel) { _, _ = ch.SendRequest("eow@openssh.com", false, nil) }

// A guest that does not close what we closed holds nobody up for ever.
func TestGuestThatDoesNotClose(t *testing.T) {
	stuck := func(conn *ssh.ServerConn, chans <-chan ssh.NewChannel, reqs <-chan *ssh.Request) {
		quiet(reqs)
		c := <-chans
		_, r, _ := c.Accept()
		time.Sleep(time.Hour) // its requests are not read, which stops everything once they are too many
		ssh.DiscardRequests(r)
	}
	within(t, stuck, func(t *testing.T, l *Link) {
		s, err := l.Exec(t.Context(), guest.Exec{Argv: []string{"true"}})
		if err != nil {
			t.Fatal(err)
		}
		for range 40 {
			_ = s.Resize(guest.Size{Cols: 1, Rows: 1})
		}
		begin := time.Now()
		s.Close()
		if _, err := io.ReadAll(s.Stdout); err == nil && l.Err() == nil {
			t.Error("the output ended by itself")
		}
		if _, err := s.Wait(); !errors.Is(err, ErrLost) {
			t.Errorf("wait: %v", err)
		}
		if d := time.Since(begin); d > 2*deadAfter {
			t.Errorf("it took %v", d)
		}
		time.Sleep(2 * time.Hour) // the guest comes to its senses
	})
}

// The guest opens channels and sends requests of its own, many of them.
func TestGuestThatAsks(t *testing.T) {
	asks := func(conn *ssh.ServerConn, chans <-chan ssh.NewChannel, reqs <-chan *ssh.Request) {
		for _, kind := range []string{"session", "direct-tcpip", "forwarded-tcpip", "auth-agent@openssh.com", "x11", guest.CallChannel} {
			if ch, _, err := conn.OpenChannel(kind, make([]byte, 1000)); err == nil {
				ch.Close()
				panic("the host opened a channel of type " + kind)
			}
		}
		for i := range 1000 {
			if ok, _, err := conn.SendRequest("tcpip-forward", i%2 == 0, nil); ok || err != nil {
				panic("the host agreed to something")
			}
		}
		reply([]byte(`{"result":{"version":1}}`))(conn, chans, reqs)
	}
	within(t, asks, func(t *testing.T, l *Link) {
		if h, err := l.Hello(t.Context()); err != nil || h.Version != 1 {
			t.Errorf("%+v, %v", h, err)
		}
	})
}

func TestGuestThatHangsUp(t *testing.T) {
	hangUp := onSession(func(ch ssh.Channel) {})
	within(t, func(conn *ssh.ServerConn, chans <-chan ssh.NewChannel, reqs <-chan *ssh.Request) {
		go func() {
			time.Sleep(time.Minute)
			conn.Close()
		}()
		hangUp(conn, chans, reqs)
	}, func(t *testing.T, l *Link) {
		s, err := l.Exec(t.Context(), guest.Exec{Argv: []string{"true"}})
		if err != nil {
			t.Fatal(err)
		}
		c, err := l.Forward(t.Context(), "127.0.0.1:80")
		if err != nil {
			t.Fatal(err)
		}
		if exit, err := s.Wait(); !errors.Is(err, ErrLost) || exit.Code != -1 {
			t.Errorf("%+v, %v", exit, err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, ErrLost) {
			t.Errorf("forwarded: %v", err)
		}
		if err := s.Resize(guest.Size{Cols: 1, Rows: 1}); !errors.Is(err, ErrLost) {
			t.Errorf("resize: %v", err)
		}
		if _, err := s.Stdin.Write([]byte("x")); !errors.Is(err, ErrLost) {
			t.Errorf("write: %v", err)
		}
		c.Close()
	})
}

func TestKeysAreHidden(t *testing.T) {
	k := mustKeys(t)
	b, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	var back Keys
	if err := json.Unmarshal(b, &back); err != nil || back.HostKey() != k.HostKey() || back.Authorized() != k.Authorized() || back.ClientKey() != k.ClientKey() {
		t.Errorf("keys do not survive JSON: %v", err)
	}
	type outer struct {
		Keys   Keys
		hidden Keys
		ptr    *Keys
	}
	o := outer{k, k, &k}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, v := range []any{k, &k, o, &o, []Keys{k}, map[string]Keys{"a": k}} {
			if s := fmt.Sprintf(verb, v); strings.Contains(s, "PRIVATE") || strings.Contains(s, "LS0tLS1") || len(s) > 500 {
				t.Errorf("%s of %T prints %.300s", verb, v, s)
			}
		}
	}
	for _, bad := range []string{`{"host_key":"x","client_key":"y"}`, `{"host_key":"` + "-----BEGIN" + `"}`, `[]`, `7`} {
		err := json.Unmarshal([]byte(bad), &back)
		if err == nil {
			t.Errorf("%s was read", bad)
		}
	}
	if err := json.Unmarshal([]byte(`{}`), &back); err != nil || !back.IsZero() || back.HostKey() != "" {
		t.Errorf("no keys: %v", err)
	}
	if b, err := json.Marshal(Keys{}); err != nil || string(b) != `{"host_key":"","client_key":""}` {
		t.Errorf("no keys as JSON: %s, %v", b, err)
	}
	if !strings.HasPrefix(k.KnownHost("h"), "h ssh-ed25519 ") {
		t.Error(k.KnownHost("h"))
	}
}

// FuzzGuestWords feeds bytes of a guest's to every parser on this side.
func FuzzGuestWords(f *testing.F) {
	f.Add([]byte{0, 0, 0, 3})
	f.Add(ssh.Marshal(struct {
		N    string
		C    bool
		M, L string
	}{"TERM", false, "", ""}))
	f.Add([]byte(`{"result":{"uptime":1,"load1":0.5},"error":""}`))
	f.Add([]byte(`{"error":"\u001b[31m"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		if code, err := parseExitStatus(b); err == nil && (code < 0 || code > 255) {
			t.Errorf("status %d", code)
		}
		if exit, err := parseExitSignal(b); err == nil && (exit.Code <= 128 || exit.Code > 255 || exit.Signal != guest.Clean(exit.Signal, 32)) {
			t.Errorf("signal %+v", exit)
		}
		var stats guest.Stats
		if err := parseReply(guest.MethodStats, b, &stats); err != nil {
			if s := err.Error(); s != guest.Clean(s, len(s)) {
				t.Errorf("error %q", s)
			}
		}
		var ports []guest.Port
		_ = parseReply(guest.MethodPorts, b, &ports)
	})
}
