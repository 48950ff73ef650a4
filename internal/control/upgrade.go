package control

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"

	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/problem"
)

func (s *Server) attach(w http.ResponseWriter, r *http.Request) {
	ref, err := refOf(r)
	if err == nil {
		err = wantsUpgrade(r)
	}
	var a wire.Attach
	if err == nil {
		err = readJSON(w, r, &a)
	}
	if err == nil {
		err = a.Check()
	}
	if err != nil {
		writeError(w, err)
		return
	}
	s.upgraded.Add(1)
	defer s.upgraded.Done()
	ctx, cancel, unhook := s.upgrading(r)
	defer cancel()
	stream, err := s.svc.Attach(ctx, ref, a)
	unhook()
	if err != nil {
		writeError(w, err)
		return
	}
	defer stream.Close()
	conn, br, err := hijack(w)
	if err != nil {
		s.log.Warn("attach", "err", err)
		return
	}
	defer conn.Close()
	pump(ctx, conn, br, stream)
}

// errLeaving ends streams when the server shuts down.
var errLeaving = problem.New(problem.Unreachable, "the daemon is leaving", "Machines and their consoles go on running; the next daemon takes them over.")

// upgrading is a context for a connection that is being taken over: it ends with the server, and
// until unhook with the request. Afterwards the reader of the connection sees its end.
func (s *Server) upgrading(r *http.Request) (ctx context.Context, cancel func(), unhook func() bool) {
	ctx, cancelCause := context.WithCancelCause(context.WithoutCancel(r.Context()))
	ofServer := context.AfterFunc(s.quit, func() { cancelCause(errLeaving) })
	cancel = func() { ofServer(); cancelCause(nil) }
	return ctx, cancel, context.AfterFunc(r.Context(), func() { cancelCause(nil) })
}

func (s *Server) forward(w http.ResponseWriter, r *http.Request) {
	ref, err := refOf(r)
	if err == nil {
		err = wantsUpgrade(r)
	}
	addr := r.PathValue("addr")
	if err == nil {
		err = checkAddr(addr)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	s.upgraded.Add(1)
	defer s.upgraded.Done()
	ctx, cancel, unhook := s.upgrading(r)
	defer cancel()
	far, err := s.svc.Forward(ctx, ref, addr)
	unhook()
	if err != nil {
		writeError(w, err)
		return
	}
	defer far.Close()
	conn, br, err := hijack(w)
	if err != nil {
		s.log.Warn("forward", "err", err)
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close(); far.Close() })()

	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := io.Copy(far, br)
		finish(far, err)
	})
	_, err = io.Copy(conn, far)
	finish(conn, err)
	wg.Wait()
}

// finish passes on the end of one direction, or ends both where that is not possible.
func finish(to io.Closer, err error) {
	half, ok := to.(interface{ CloseWrite() error })
	if err != nil || !ok || half.CloseWrite() != nil {
		to.Close()
	}
}

// checkAddr lets through host:port with a plain port number; a host name is resolved in the guest.
func checkAddr(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err == nil {
		var n int
		n, err = parsePort(port)
		if err == nil && (n == 0 || host == "" || len(host) > 255) {
			err = fmt.Errorf("not an address: %q", addr)
		}
	}
	return problem.Wrap(problem.Usage, err, "", "Write it as HOST:PORT, as the guest sees it: localhost:8080.")
}

func parsePort(s string) (int, error) {
	n := 0
	for _, c := range s {
		if c < '0' || c > '9' || n > 65535 {
			return 0, fmt.Errorf("not a port number: %q", s)
		}
		n = n*10 + int(c-'0')
	}
	if n > 65535 {
		return 0, fmt.Errorf("not a port number: %q", s)
	}
	return n, nil
}

func wantsUpgrade(r *http.Request) error {
	if !strings.EqualFold(r.Header.Get("Upgrade"), wire.Upgrade) {
		return problem.New(problem.Usage, "this route answers with a stream only", "Send Connection: Upgrade and Upgrade: "+wire.Upgrade+".")
	}
	return nil
}

// hijack takes the connection over and says so to the front (RFC 9110, section 7.8).
func hijack(w http.ResponseWriter) (net.Conn, *bufio.Reader, error) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, nil, fmt.Errorf("take the connection over: %w", err)
	}
	_, err = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+wire.Upgrade+"\r\n\r\n")
	if err != nil {
		conn.Close()
		return nil, nil, fmt.Errorf("switch protocols: %w", err)
	}
	return conn, rw.Reader, nil
}
