//go:build linux

package sshd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"bromure.io/tui/vm/guest"
	"bromure.io/tui/vm/guest/console"
	"bromure.io/tui/vm/guest/login"
)

// Limits. All of them are far above what one user with some editors, agents and forwarded ports
// needs; they keep a mistake on the host from filling the guest.
const (
	maxConns         = 32               // connections, logged in or not
	maxChannels      = 256              // open channels of one connection
	handshakeTimeout = 30 * time.Second // accept to logged in; 100 ms is usual, a busy emulated machine takes seconds
	maxAuthTries     = 6                // OpenSSH clients offer every key of their agent before the right one
)

// Config is what a server needs. HostKey and ClientKey are required.
type Config struct {
	HostKey   ssh.Signer    // proves to the host which boot it talks to
	ClientKey ssh.PublicKey // the only key that may log in

	// User is the account that sessions run as; default [guest.User]. The same key also
	// logs in as root. Accounts are looked up at each session, since apt may have changed them.
	User string

	// Etc is the directory with passwd, group, environment and default/locale; default [login.Dir].
	Etc string

	// From, where valid, is the only address that is served; others are closed at once.
	From netip.Addr

	// Cgroup is the directory of the control group that programs begin in, see package process.
	Cgroup string

	// Env is added to the environment of every program, after the login environment.
	Env map[string]string

	// Calls answers [guest.CallChannel]; nil refuses all but [guest.MethodConsoles], which the server
	// answers itself. Its result is sent as JSON, its error as text.
	Calls func(ctx context.Context, method guest.Method, params json.RawMessage) (any, error)

	// SFTP is the command that serves sftp on its standard input and output; it runs as the
	// user who logged in. Default: this very program with the argument "sftp", see [RunSFTP].
	SFTP []string

	Log *slog.Logger // nil: nothing is logged
}

// Server is one SSH server with the consoles it holds.
type Server struct {
	cfg      Config
	ssh      *ssh.ServerConfig
	etc      *login.Etc
	consoles *console.Set
	log      *slog.Logger

	mu    sync.Mutex
	conns map[net.Conn]struct{}
	wg    sync.WaitGroup
}

// New makes a server. It listens nowhere until [Server.Serve].
func New(cfg Config) (*Server, error) {
	if cfg.HostKey == nil || cfg.ClientKey == nil {
		return nil, errors.New("ssh server: a host key and a client key are needed")
	}
	if cfg.User == "" {
		cfg.User = guest.User
	}
	if cfg.Etc == "" {
		cfg.Etc = login.Dir
	}
	if len(cfg.SFTP) == 0 {
		cfg.SFTP = []string{"/proc/self/exe", "sftp"}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		cfg:      cfg,
		log:      cfg.Log,
		etc:      login.New(cfg.Etc),
		consoles: console.NewSet(),
		conns:    make(map[net.Conn]struct{}),
	}
	s.ssh = &ssh.ServerConfig{
		Config:                  Algorithms(),
		PublicKeyAuthAlgorithms: []string{ssh.KeyAlgoED25519},
		MaxAuthTries:            maxAuthTries,
		ServerVersion:           "SSH-2.0-bromure",
		PublicKeyCallback:       s.checkKey,
	}
	s.ssh.AddHostKey(cfg.HostKey)
	return s, nil
}

// Serve makes a server of cfg and runs it on ln until ctx is done.
func Serve(ctx context.Context, ln net.Listener, cfg Config) error {
	s, err := New(cfg)
	if err != nil {
		return err
	}
	return s.Serve(ctx, ln)
}

// Serve accepts connections on ln until ctx is done or ln fails. Then it closes ln, its connections and
// its consoles, and returns when nothing of it runs any more. The error is nil when ctx ended it.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	defer s.wg.Wait()
	defer s.consoles.Close()
	defer s.closeConns()
	defer ln.Close()
	defer cancel()

	var backoff time.Duration
	for {
		c, err := ln.Accept()
		switch {
		case err == nil:
			backoff = 0
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("accept ssh connections: %w", err)
		default:
			// Out of descriptors or memory: the server must outlive it, or nobody can log in to mend it.
			backoff = min(max(2*backoff, 5*time.Millisecond), time.Second)
			s.log.Warn("accept", "err", err)
			select {
			case <-time.After(backoff):
			case <-ctx.Done():
			}
			continue
		}
		if !s.admit(c) {
			c.Close()
			continue
		}
		s.wg.Go(func() {
			defer s.forget(c)
			s.serveConn(ctx, c)
		})
	}
}

// Consoles lists the consoles that the server holds, by name.
func (s *Server) Consoles() []guest.ConsoleInfo { return s.consoles.List() }

// admit decides about a connection before anything is read from it, and remembers it.
func (s *Server) admit(c net.Conn) bool {
	if s.cfg.From.IsValid() {
		ap, err := netip.ParseAddrPort(c.RemoteAddr().String())
		if err != nil || ap.Addr().Unmap().WithZone("") != s.cfg.From.Unmap() {
			s.log.Warn("connection refused", "from", c.RemoteAddr().String())
			return false
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns) >= maxConns {
		s.log.Warn("connection refused: too many", "limit", maxConns)
		return false
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *Server) forget(c net.Conn) {
	c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
}

func (s *Server) closeConns() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		c.Close()
	}
}

// Algorithms are the ones that both sides of a link speak, the preferred one first. The client's order decides.
// Standard clients choose from the same short list.
func Algorithms() ssh.Config {
	return ssh.Config{
		KeyExchanges: []string{ssh.KeyExchangeCurve25519, ssh.KeyExchangeMLKEM768X25519},
		Ciphers:      []string{ssh.CipherAES128GCM, ssh.CipherChaCha20Poly1305, ssh.CipherAES256GCM},
		MACs:         []string{ssh.HMACSHA256ETM}, // not used: all ciphers above authenticate by themselves
	}
}

// root is the other account that the client key opens.
const root = "root"

var errLogin = errors.New("not this boot's key, or not a user that may log in")

func (s *Server) checkKey(meta ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
	if !slices.Equal(key.Marshal(), s.cfg.ClientKey.Marshal()) {
		return nil, errLogin
	}
	if u := meta.User(); u != s.cfg.User && u != root {
		return nil, errLogin
	}
	return &ssh.Permissions{}, nil
}
