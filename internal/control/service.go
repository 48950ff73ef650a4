// Package control is the daemon's front door and the way fronts reach it: an HTTP/1.1 server on
// a Unix socket, a client with the same verbs, and the start of a daemon on demand.
//
// It knows the words (vm, images, wire) and no machinery: what a request does is behind
// [Service]. Read service.go first, then server.go (routes) and connect.go (the start on demand).
// docs/control-socket.md is the same for people, with curl examples.
package control

import (
	"context"
	"io"
	"iter"

	"bromure.io/tui/images"
	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/verb"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/guest"
)

// Service is what a daemon does for its fronts. Its methods may be called from any goroutine.
// controltest.Contract holds what every implementation has to do.
//
// ref is a workspace's name, ID or unique ID prefix; it has passed [wire.CheckRef]. Errors carry a
// problem.Kind: NotFound for an unknown ref, Usage for one that fits several workspaces, Refused when
// the state does not allow it. A context ends when the front goes away or the server shuts
// down: what can be given up is given up then, and what must not be left half-way (a stop) goes on.
type Service interface {
	// Health says who answers. It is quick and never waits for anything.
	Health() wire.Health

	// Watch yields the state of now at once, then the newest one after each change, until ctx ends or
	// the consumer breaks. States that came and went while the consumer was busy are skipped.
	Watch(ctx context.Context) iter.Seq[wire.Snapshot]

	// Create makes a workspace. It starts nothing.
	Create(ctx context.Context, c wire.Create) (wire.Workspace, error)

	// Workspace finds one.
	Workspace(ctx context.Context, ref string) (wire.Workspace, error)

	// Plan plans a verb that removes something, and keeps the plan until Do is given its ID. It removes nothing.
	Plan(ctx context.Context, p wire.PlanRequest) (verb.Plan, error)

	// Do carries out a plan that was confirmed, or a verb: start, stop, kill, reboot, image-build. report may be nil; it does
	// not block and is not called after Do has returned. The result is the last word: Workspace or Image is
	// set in it; Done and Error are the server's to set.
	Do(ctx context.Context, do wire.Do, report func(wire.Progress)) (wire.Progress, error)

	// Logs opens a log for reading. kind may be [wire.DaemonLog], then ref is empty.
	// With q.Follow a Read waits for more; closing the reader or the end of ctx ends it with io.EOF.
	Logs(ctx context.Context, ref string, kind layout.LogKind, q wire.LogQuery) (io.ReadCloser, error)

	// Attach runs a program in the guest or attaches to a console that it holds. The stream outlives no
	// ctx: when ctx ends, it is closed.
	Attach(ctx context.Context, ref string, a wire.Attach) (Stream, error)

	// Forward connects to host:port as the guest sees it. Where the result has a method CloseWrite() error, half-closing
	// is passed on.
	Forward(ctx context.Context, ref, addr string) (io.ReadWriteCloser, error)

	// Lease ties an attached throw-away workspace to a front: end is called when the front is gone, or
	// (gone is false) when the server shuts down. A front that went away without [verb.Keep] ends the machine, and with it the workspace.
	Lease(ctx context.Context, ref string) (end func(gone bool), err error)

	// Ports lists what listens in the guest.
	Ports(ctx context.Context, ref string) ([]guest.Port, error)

	// Doctor says what the backend can do here; fresh ignores a cached answer.
	Doctor(ctx context.Context, fresh bool) (vm.Capabilities, error)

	// Images lists the base images, newest first.
	Images(ctx context.Context) ([]images.Manifest, error)

	// VerifyImage checks an image's files against its manifest; an empty ref means the newest. It
	// returns which one it was. A difference is a problem of kind Unverified.
	VerifyImage(ctx context.Context, ref string, report func(wire.Progress)) (images.Ref, error)

	// Shutdown makes the daemon leave. It returns when everything that was asked for is done (with
	// s.Machines: no machine runs) and the daemon has begun to leave; the answer still gets out.
	Shutdown(ctx context.Context, s wire.Shutdown, report func(wire.Progress)) error
}

// Stream is a program that runs in the guest, or an attachment to a console. All methods may be
// called at the same time from several goroutines.
type Stream interface {
	Stdin() io.WriteCloser // closing it is the end of the program's input
	Stdout() io.Reader
	Stderr() io.Reader // at EOF from the beginning when there is a terminal

	Resize(s guest.Size) error
	Signal(name string) error // without "SIG", as RFC 4254, section 6.10

	// Wait returns the exit code, 128+n after signal n. An error with a code is a program that could not be started; the
	// code is then what a shell gives (126, 127). An error without one means that the connection broke. Somebody has to read Stdout and Stderr to their end meanwhile.
	Wait() (code int, err error)

	// Close lets go: a program gets SIGHUP, a console goes on without us. It unblocks every other method.
	// Closing twice does no harm.
	Close() error
}
