package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"

	"bromure.io/tui/images"
	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/guest"
)

// Client speaks to the daemon behind one control socket. Its methods may be called from any goroutine.
type Client struct {
	socket string
	http   *http.Client
}

// maxAnswer bounds an answer that is read whole.
const maxAnswer = 64 << 20

// NewClient makes a client; it connects when it is used. Most callers want [Connect].
func NewClient(socket string) *Client {
	c := &Client{socket: socket}
	c.http = &http.Client{
		Transport: &http.Transport{
			DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx) },
			DisableCompression: true,
		},
		// The server sends none for a path that the client makes; following one would escape twice.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c
}

// Close lets go of kept connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Socket is the path that the client connects to.
func (c *Client) Socket() string { return c.socket }

// dial connects and checks that the other end is this user's: the runtime directory can be
// below /tmp, where somebody else could have been first.
func (c *Client) dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", c.socket)
	if err != nil {
		return nil, err
	}
	uid, err := peerUID(conn.(*net.UnixConn))
	if err == nil && uid != uint32(os.Geteuid()) {
		err = problem.New(problem.Unreachable, fmt.Sprintf("%s belongs to user %d", c.socket, uid), "")
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// path puts elements into a route's pattern, each escaped once.
func path(pattern string, elems ...string) string {
	var b strings.Builder
	for _, e := range elems {
		before, rest, _ := strings.Cut(pattern, "{")
		_, after, _ := strings.Cut(rest, "}")
		b.WriteString(before)
		b.WriteString(url.PathEscape(e))
		pattern = after
	}
	b.WriteString(pattern)
	return b.String()
}

// send makes a request and returns its answer if that is a 2xx; the caller closes the body.
func (c *Client) send(ctx context.Context, method, path string, body any) (*http.Response, error) {
	req, err := newRequest(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.unreachable(ctx, err)
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		return nil, errorOf(resp)
	}
	return resp, nil
}

func newRequest(ctx context.Context, method, path string, body any) (*http.Request, error) {
	var r io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("write the request: %w", err)
		}
		r = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+wire.Host+path, r)
	if err != nil {
		return nil, fmt.Errorf("write the request: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

// unreachable is what the front shows when no answer came.
func (c *Client) unreachable(ctx context.Context, err error) error {
	switch ctx.Err() {
	case context.DeadlineExceeded:
		return problem.Wrap(problem.DeadlineMiss, ctx.Err(), "ask the daemon", "`daemon logs` shows what it does.")
	case context.Canceled:
		return problem.Wrap(problem.Interrupted, context.Cause(ctx), "", "")
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if nobodyListens(err) {
		return problem.Wrap(problem.Unreachable, errNobody, "find the daemon", "Commands that need one start it; `daemon logs` shows what the last one said.")
	}
	return problem.Wrap(problem.Unreachable, err, "the daemon does not answer", "`daemon logs` shows what it said.")
}

// nobodyListens says whether a dial failed because there is no socket, or a dead one.
func nobodyListens(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)
}

// errorOf reads the error in an answer.
func errorOf(resp *http.Response) error {
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxBody))
	var e wire.Error
	if err != nil || json.Unmarshal(data, &e) != nil || e.Msg == "" {
		return problem.New(problem.Failed, fmt.Sprintf("the daemon answered %q", resp.Status), "")
	}
	return e.Problem()
}

func call[T any](ctx context.Context, c *Client, method, path string, body any) (T, error) {
	var v T
	resp, err := c.send(ctx, method, path, body)
	if err != nil {
		return v, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return v, c.unreachable(ctx, err)
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return v, fmt.Errorf("read the daemon's answer: %w", err)
	}
	return v, nil
}

// Health asks who answers.
func (c *Client) Health(ctx context.Context) (wire.Health, error) {
	return call[wire.Health](ctx, c, "GET", wire.PathHealth, nil)
}

// Create is [Service.Create].
func (c *Client) Create(ctx context.Context, w wire.Create) (wire.Workspace, error) {
	return call[wire.Workspace](ctx, c, "POST", wire.PathWorkspaces, w)
}

// Workspace is [Service.Workspace].
func (c *Client) Workspace(ctx context.Context, ref string) (wire.Workspace, error) {
	if err := wire.CheckRef(ref); err != nil {
		return wire.Workspace{}, err
	}
	return call[wire.Workspace](ctx, c, "GET", path(wire.PathWorkspace, ref), nil)
}

// Ports is [Service.Ports].
func (c *Client) Ports(ctx context.Context, ref string) ([]guest.Port, error) {
	if err := wire.CheckRef(ref); err != nil {
		return nil, err
	}
	return call[[]guest.Port](ctx, c, "GET", path(wire.PathPorts, ref), nil)
}

// Doctor is [Service.Doctor].
func (c *Client) Doctor(ctx context.Context, fresh bool) (vm.Capabilities, error) {
	p := wire.PathDoctor
	if fresh {
		p += "?fresh=1"
	}
	return call[vm.Capabilities](ctx, c, "GET", p, nil)
}

// Images is [Service.Images].
func (c *Client) Images(ctx context.Context) ([]images.Manifest, error) {
	return call[[]images.Manifest](ctx, c, "GET", wire.PathImages, nil)
}
