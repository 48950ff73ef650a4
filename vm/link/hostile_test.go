package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"bromure.io/tui/vm/guest"
)

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
