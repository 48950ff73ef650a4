package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/problem"
)

// Bounds of a request. They keep a broken front from holding on to memory, not an attacker out: whoever
// can connect is the user.
const (
	maxBody       = 1 << 20
	maxHeader     = 64 << 10
	headerTimeout = 10 * time.Second // for the request's head, and again for its body
	idleTimeout   = 2 * time.Minute  // of a kept connection between two requests
)

// Server serves a [Service] to fronts.
type Server struct {
	svc  Service
	log  *slog.Logger
	http *http.Server

	quit     context.Context // ends at the beginning of a shutdown; followers leave then
	stop     context.CancelFunc
	upgraded sync.WaitGroup

	mu       sync.Mutex
	inFlight int
	idle     time.Time // since when inFlight is 0
}

// NewServer makes a server. log gets what goes wrong between the server and a front.
func NewServer(svc Service, log *slog.Logger) *Server {
	s := &Server{svc: svc, log: log, idle: time.Now()}
	s.quit, s.stop = context.WithCancel(context.Background())
	s.http = &http.Server{
		Handler:           s.guard(s.routes()),
		ReadHeaderTimeout: headerTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	return s
}

// Serve answers on l until [Server.Shutdown]; then it returns nil.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the control socket: %w", err)
	}
	return nil
}

// Shutdown closes the listener, ends watches, followed logs, attached streams and forwards, and
// waits for the operations in progress until ctx ends; then it cuts what is left.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	err := s.http.Shutdown(ctx)
	if err != nil {
		_ = s.http.Close()
	}
	// Their context has ended, so this takes no longer than closing them does.
	s.upgraded.Wait()
	return err
}

// Idle says since when no front has had a request open, and whether that is so now.
func (s *Server) Idle() (since time.Time, idle bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.idle, s.inFlight == 0
}

func (s *Server) enter() {
	s.mu.Lock()
	s.inFlight++
	s.mu.Unlock()
}

func (s *Server) leave() {
	s.mu.Lock()
	s.inFlight--
	s.idle = time.Now()
	s.mu.Unlock()
}

// guard is what every request passes before a route is looked for.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.enter()
		defer s.leave()
		// A browser that is led to this socket (a forwarded port, a proxy on loopback) sends an Origin with
		// everything that could do harm, and a Host of its own.
		if _, ok := r.Header["Origin"]; ok {
			writeError(w, problem.New(problem.Denied, "requests of web pages are refused", ""))
			return
		}
		if r.Host != wire.Host {
			writeError(w, problem.New(problem.Denied, fmt.Sprintf("unknown host %q", r.Host), "Use http://"+wire.Host+"/ in the URL."))
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r)
	})
}

// following is r's context, ended by a shutdown too: for requests that have no end of their own.
func (s *Server) following(r *http.Request) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(r.Context())
	unhook := context.AfterFunc(s.quit, cancel)
	return ctx, func() { unhook(); cancel() }
}
