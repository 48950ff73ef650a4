package daemontest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/crypto/ssh"

	"bromure.io/tui/vm/guest"
	"bromure.io/tui/vm/guest/sshd"
	"bromure.io/tui/vm/link"
	"bromure.io/tui/vm/netstack/netstacktest"
	"bromure.io/tui/vm/vmtest"
)

// Guest is the guest of a fake machine: a second network stack with the SSH server of real guests on it. Programs
// run on this host as the current user; a power-off or a reboot that it is asked for is done at once. etc is a directory
// from [WriteEtc].
func Guest(etc string) func(context.Context, *vmtest.Guest) {
	return func(ctx context.Context, g *vmtest.Guest) {
		if err := serve(ctx, etc, g); err != nil {
			fmt.Fprintln(g.Serial(ctx), "guest:", err)
		}
	}
}

func serve(ctx context.Context, etc string, g *vmtest.Guest) error {
	var keys link.Keys
	data, err := os.ReadFile(g.Spec.Dir.Keys())
	if err == nil {
		err = json.Unmarshal(data, &keys)
	}
	if err != nil {
		return err
	}
	host, err := ssh.ParsePrivateKey([]byte(keys.HostKey()))
	if err != nil {
		return err
	}
	client, _, _, _, err := ssh.ParseAuthorizedKey([]byte(keys.Authorized()))
	if err != nil {
		return err
	}
	nic := &card{ReadWriter: g.NIC(ctx), answered: make(chan struct{})}
	stack, err := netstacktest.NewGuest(nic, string(g.Spec.Workspace.MAC))
	if err != nil {
		return err
	}
	defer stack.Close()
	l, err := stack.Listen(guest.SSHPort)
	if err != nil {
		return err
	}
	return sshd.Serve(ctx, addressed{l}, sshd.Config{
		HostKey: host, ClientKey: client, Etc: etc, Env: map[string]string{"BOOT": fmt.Sprint(g.Boot)},
		Calls: func(_ context.Context, method guest.Method, params json.RawMessage) (any, error) {
			switch method {
			case guest.MethodClock:
				var c guest.Clock
				return c, json.Unmarshal(params, &c)
			case guest.MethodHello:
				return guest.Hello{Version: guest.Version, Booted: true, BootID: fmt.Sprint(g.Boot)}, nil
			case guest.MethodPowerOff:
				go nic.afterReply(ctx, g.PowerOff)
				return nil, nil
			case guest.MethodReboot:
				go nic.afterReply(ctx, g.Reboot)
				return nil, nil
			case guest.MethodSync:
				return nil, nil
			case guest.MethodStats:
				return guest.Stats{CPUs: g.Spec.Workspace.CPUs}, nil
			case guest.MethodPorts:
				return []guest.Port{}, nil
			case guest.MethodTrim:
				return guest.Trimmed{}, nil
			}
			return nil, errors.New("this guest cannot do that")
		},
	})
}

// addressed is a listener whose connections have addresses to their end and beyond, as those of a kernel have.
type addressed struct{ net.Listener }

func (l addressed) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return addressedConn{c}, err
}

type addressedConn struct{ net.Conn }

func (c addressedConn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.ParseIP(guest.GatewayAddress), Port: 1}
}

func (c addressedConn) LocalAddr() net.Addr {
	return &net.TCPAddr{IP: net.ParseIP(guest.GuestAddress), Port: guest.SSHPort}
}

// card is the guest's end of its network card. It knows when the host has taken note of a reply.
type card struct {
	io.ReadWriter
	waiting  atomic.Int32
	answered chan struct{} // closed at the first frame that comes in after one that went out
}

// Stages of card.waiting: somebody waits; a frame went out; one came in after that.
const (
	cardIdle = iota
	cardAsked
	cardSent
)

func (c *card) Read(p []byte) (int, error) {
	n, err := c.ReadWriter.Read(p)
	if err != nil {
		return n, io.EOF // the boot has ended
	}
	if c.waiting.CompareAndSwap(cardSent, cardIdle) {
		close(c.answered)
	}
	return n, nil
}

func (c *card) Write(p []byte) (int, error) {
	n, err := c.ReadWriter.Write(p)
	c.waiting.CompareAndSwap(cardAsked, cardSent)
	return n, err
}

func (c *card) Close() error { return nil } // it ends with the boot

// afterReply does what ends the boot when the reply to the call has arrived, which the host's next frame says.
func (c *card) afterReply(ctx context.Context, end func()) {
	if !c.waiting.CompareAndSwap(cardIdle, cardAsked) {
		return // asked twice
	}
	select {
	case <-c.answered:
		end()
	case <-ctx.Done():
	}
}

// WriteEtc makes a directory like a guest's /etc in dir, in which the current user is called as in a guest.
func WriteEtc(dir string) (string, error) {
	etc, home := filepath.Join(dir, "etc"), filepath.Join(dir, "guest-home")
	for _, d := range []string{etc, home} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return "", err
		}
	}
	for name, text := range map[string]string{
		"passwd":      fmt.Sprintf("root:x:0:0:root:/root:/bin/sh\n%s:x:%d:%d::%s:/bin/sh\n", guest.User, os.Getuid(), os.Getgid(), home),
		"group":       fmt.Sprintf("tty:x:5:\n%s:x:%d:\n", guest.User, os.Getgid()),
		"environment": "PATH=\"/usr/local/bin:/usr/bin:/bin\"\n",
	} {
		if err := os.WriteFile(filepath.Join(etc, name), []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	return etc, nil
}
