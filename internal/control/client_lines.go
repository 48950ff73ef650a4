package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/url"
	"strconv"

	"bromure.io/tui/images"
	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/internal/verb"
)

// Watch is [Service.Watch]. An error is the last thing that it yields; a daemon that leaves is one.
func (c *Client) Watch(ctx context.Context) iter.Seq2[wire.Snapshot, error] {
	return watch(ctx, c, wire.PathWatch)
}

// Snapshot is the state of now.
func (c *Client) Snapshot(ctx context.Context) (wire.Snapshot, error) {
	for snap, err := range watch(ctx, c, wire.PathWatch+"?once=1") {
		return snap, err
	}
	return wire.Snapshot{}, problem.New(problem.Unreachable, "the daemon is leaving", "Try again.")
}

func watch(ctx context.Context, c *Client, path string) iter.Seq2[wire.Snapshot, error] {
	return func(yield func(wire.Snapshot, error) bool) {
		// Leaving the loop early must end the request.
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		resp, err := c.send(ctx, "GET", path, nil)
		if err != nil {
			yield(wire.Snapshot{}, err)
			return
		}
		defer resp.Body.Close()
		for snap, err := range decodeLines[wire.Snapshot](resp.Body) {
			if err != nil {
				yield(snap, c.unreachable(ctx, err))
				return
			}
			if !yield(snap, nil) {
				return
			}
		}
	}
}

// maxLine bounds one line of a stream; a snapshot with a few thousand workspaces fits.
const maxLine = 16 << 20

func decodeLines[T any](r io.Reader) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		sc := bufio.NewScanner(r)
		sc.Buffer(make([]byte, 0, 64<<10), maxLine)
		for sc.Scan() {
			var v T
			err := json.Unmarshal(sc.Bytes(), &v)
			if !yield(v, err) || err != nil {
				return
			}
		}
		if err := sc.Err(); err != nil {
			var v T
			yield(v, err)
		}
	}
}

// Do is [Service.Do]. Ending ctx tells the daemon to give up what can be given up.
func (c *Client) Do(ctx context.Context, do wire.Do, report func(wire.Progress)) (wire.Progress, error) {
	if do.Workspace != "" {
		if err := wire.CheckRef(do.Workspace); err != nil {
			return wire.Progress{}, err
		}
	}
	return c.operation(ctx, wire.PathDo, do, report)
}

// Plan is [Service.Plan].
func (c *Client) Plan(ctx context.Context, p wire.PlanRequest) (verb.Plan, error) {
	if err := checkPlan(p); err != nil {
		return verb.Plan{}, err
	}
	return call[verb.Plan](ctx, c, "POST", wire.PathPlan, p)
}

// Lease is [Service.Lease]: it returns once the lease is held, which it is until release is called or this process ends.
func (c *Client) Lease(ctx context.Context, ref string) (release func(), err error) {
	if err := wire.CheckRef(ref); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	resp, err := c.send(ctx, "POST", path(wire.PathLease, ref), nil)
	if err != nil {
		cancel()
		return nil, err
	}
	return func() { cancel(); resp.Body.Close() }, nil
}

// VerifyImage is [Service.VerifyImage].
func (c *Client) VerifyImage(ctx context.Context, ref string, report func(wire.Progress)) (images.Ref, error) {
	if ref == "" {
		ref = wire.Newest
	} else if _, err := images.ParseRef(ref); err != nil {
		return "", problem.Wrap(problem.Usage, err, "", "`image ls` lists the images.")
	}
	last, err := c.operation(ctx, path(wire.PathVerify, ref), nil, report)
	return images.Ref(last.Image), err
}

// Shutdown is [Service.Shutdown]. When it returns, the daemon still has to end; see [WaitGone].
func (c *Client) Shutdown(ctx context.Context, s wire.Shutdown, report func(wire.Progress)) error {
	_, err := c.operation(ctx, wire.PathShutdown, s, report)
	return err
}

func (c *Client) operation(ctx context.Context, path string, body any, report func(wire.Progress)) (wire.Progress, error) {
	resp, err := c.send(ctx, "POST", path, body)
	if err != nil {
		return wire.Progress{}, err
	}
	defer resp.Body.Close()
	for p, err := range decodeLines[wire.Progress](resp.Body) {
		if err != nil {
			return p, c.unreachable(ctx, err)
		}
		if p.Done {
			if p.Error != nil {
				return p, p.Error.Problem()
			}
			return p, nil
		}
		if report != nil {
			report(p)
		}
	}
	return wire.Progress{}, c.unreachable(ctx, errors.New("it went away in the middle"))
}

// Logs is [Service.Logs].
func (c *Client) Logs(ctx context.Context, ref string, kind layout.LogKind, q wire.LogQuery) (io.ReadCloser, error) {
	if kind == wire.DaemonLog {
		ref = wire.NoWorkspace
	} else if err := wire.CheckRef(ref); err != nil {
		return nil, err
	}
	v := url.Values{}
	if q.Follow {
		v.Set("follow", "1")
	}
	if q.Tail >= 0 {
		v.Set("tail", strconv.Itoa(q.Tail))
	}
	resp, err := c.send(ctx, "GET", fmt.Sprintf("%s?%s", path(wire.PathLogs, ref, string(kind)), v.Encode()), nil)
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}
