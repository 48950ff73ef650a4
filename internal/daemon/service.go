package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"time"

	"bromure.io/tui/images"
	"bromure.io/tui/internal/control"
	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/internal/ring"
	"bromure.io/tui/internal/verb"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/guest"
	"bromure.io/tui/vm/link"
	"bromure.io/tui/vm/store"
)

var _ control.Service = (*Daemon)(nil)

// Health says who answers.
func (d *Daemon) Health() wire.Health {
	return wire.Health{Version: d.opts.Version, API: wire.API, PID: os.Getpid(), Root: d.opts.Root, Started: d.began, Closing: d.leaving()}
}

// Watch yields snapshots.
func (d *Daemon) Watch(ctx context.Context) iter.Seq[wire.Snapshot] {
	d.publish() // a watch that begins sees the disk as it is now
	return d.hub.Watch(ctx)
}

// Create makes a workspace.
func (d *Daemon) Create(ctx context.Context, c wire.Create) (wire.Workspace, error) {
	if d.leaving() {
		return wire.Workspace{}, errClosing
	}
	if c.Image != "" {
		if _, err := d.image(c.Image); err != nil {
			return wire.Workspace{}, err
		}
	}
	n := store.NewWorkspace{
		Name: c.Name, CPUs: c.CPUs, MemoryMiB: c.MemoryMiB, HomeMiB: c.HomeMiB,
		Image: c.Image, Color: c.Color, Notes: c.Notes, Throwaway: c.Throwaway,
	}
	if n.CPUs == 0 {
		n.CPUs = vm.DefaultCPUs
	}
	if n.MemoryMiB == 0 {
		n.MemoryMiB = vm.DefaultMemory(hostMemoryMiB())
	}
	if n.HomeMiB == 0 {
		n.HomeMiB = vm.DefaultHomeMiB
	}
	ws, err := d.store.Create(ctx, n)
	if err != nil {
		return wire.Workspace{}, err
	}
	d.log.Info("workspace created", "workspace", ws.ID)
	d.publish()
	return d.view(ws, nil), nil
}

// find resolves a reference to a workspace whose settings can be used.
func (d *Daemon) find(ref string) (vm.Workspace, error) {
	id, err := d.store.Resolve(ref)
	if err != nil {
		return vm.Workspace{}, err
	}
	return d.store.Load(id)
}

// Workspace finds one.
func (d *Daemon) Workspace(_ context.Context, ref string) (wire.Workspace, error) {
	id, err := d.store.Resolve(ref)
	if err != nil {
		return wire.Workspace{}, err
	}
	ws, err := d.store.Load(id)
	ws.ID = id
	return d.view(ws, err), nil
}

// Do carries out a verb.
func (d *Daemon) Do(ctx context.Context, do wire.Do, report func(wire.Progress)) (wire.Progress, error) {
	if report == nil {
		report = func(wire.Progress) {}
	}
	if do.Plan != "" {
		return d.carryOut(ctx, do.Plan, report)
	}
	if verb.Verb(do.Verb) == verb.ImageBuild {
		ref, err := d.buildImage(ctx, do.Build, report)
		return wire.Progress{Image: string(ref)}, err
	}
	ws, err := d.find(do.Workspace)
	if err != nil {
		return wire.Progress{}, err
	}
	switch verb.Verb(do.Verb) {
	case verb.Start:
		err = d.start(ctx, ws, report)
	case verb.Stop:
		err = d.stop(ctx, ws, do.Timeout, report)
	case verb.Kill:
		err = d.kill(ctx, ws, report)
	case verb.Keep:
		err = d.keep(ws)
	case verb.Reboot:
		err = d.reboot(ctx, ws, do.Hard, report)
	default:
		err = problem.New(problem.Usage, fmt.Sprintf("the daemon knows no verb %q", do.Verb), "A front newer than the daemon? bromure-cli daemon stop")
	}
	if err != nil {
		return wire.Progress{}, err
	}
	if ws, err = d.store.Load(ws.ID); problem.KindOf(err) == problem.NotFound {
		return wire.Progress{}, nil // a throw-away that has ended
	} else if err != nil {
		return wire.Progress{}, err
	}
	v := d.view(ws, nil)
	return wire.Progress{Workspace: &v}, nil
}

// Logs opens a log.
func (d *Daemon) Logs(ctx context.Context, ref string, kind layout.LogKind, q wire.LogQuery) (io.ReadCloser, error) {
	path := d.opts.Root.DaemonLog()
	if kind != wire.DaemonLog {
		id, err := d.store.Resolve(ref)
		if err != nil {
			return nil, err
		}
		path = d.opts.Root.Workspace(string(id)).Log(kind)
	}
	if q.Follow {
		return ring.Follow(ctx, path, q.Tail)
	}
	return ring.Read(path, q.Tail)
}

// running finds a workspace that allows v, with the connection to its guest.
func (d *Daemon) running(ref string, v verb.Verb) (*machine, *link.Link, error) {
	ws, err := d.find(ref)
	if err != nil {
		return nil, nil, err
	}
	d.mu.Lock()
	status := d.status(ws.ID)
	var m *machine
	if e := d.entries[ws.ID]; e != nil {
		m = e.machine
	}
	d.mu.Unlock()
	if err := status.Allows(v, ws.Name); err != nil {
		return nil, nil, err
	}
	if m != nil {
		if l := m.link.Load(); l != nil {
			return m, l, nil
		}
	}
	return nil, nil, problem.New(problem.Refused, fmt.Sprintf("%s %q: its guest does not answer at the moment", v, ws.Name), "Wait a moment: bromure-cli vm ls")
}

// Attach runs a program or attaches to a console.
func (d *Daemon) Attach(ctx context.Context, ref string, a wire.Attach) (control.Stream, error) {
	if a.Exec != nil {
		_, l, err := d.running(ref, verb.Exec)
		if err != nil {
			return nil, err
		}
		s, err := l.Exec(ctx, *a.Exec)
		if err != nil {
			return nil, err
		}
		return stream{s}, nil
	}
	m, l, err := d.running(ref, verb.Attach)
	if err != nil {
		return nil, err
	}
	s, err := l.Console(ctx, *a.Console)
	if err != nil {
		return nil, err
	}
	m.logs.note("attached to console %q", a.Console.Name)
	return stream{s}, nil
}

// Forward connects to an address as the guest sees it.
func (d *Daemon) Forward(ctx context.Context, ref, addr string) (io.ReadWriteCloser, error) {
	_, l, err := d.running(ref, verb.Exec)
	if err != nil {
		return nil, err
	}
	return l.Forward(ctx, addr)
}

// Ports lists what listens in the guest.
func (d *Daemon) Ports(ctx context.Context, ref string) ([]guest.Port, error) {
	_, l, err := d.running(ref, verb.Exec)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	return l.Ports(ctx)
}

// Doctor says what the backend can do here.
func (d *Daemon) Doctor(ctx context.Context, fresh bool) (vm.Capabilities, error) {
	if fresh {
		if err := os.Remove(d.opts.Root.AccelCache()); err != nil && !errors.Is(err, os.ErrNotExist) {
			return vm.Capabilities{}, fmt.Errorf("forget the last probe: %w", err)
		}
	}
	caps, err := d.backend.Capabilities(ctx)
	if err == nil {
		d.setCapabilities(caps)
	}
	return caps, err
}

// Images lists the base images.
func (d *Daemon) Images(context.Context) ([]images.Manifest, error) { return d.images.List() }

// VerifyImage hashes an image's files.
func (d *Daemon) VerifyImage(ctx context.Context, ref string, report func(wire.Progress)) (images.Ref, error) {
	m, err := d.image(ref)
	if err != nil {
		return "", err
	}
	begun := time.Now()
	report(wire.Progress{Step: "verify " + string(m.Ref)})
	last := int64(-1)
	err = d.images.Verify(ctx, m.Ref, func(done, total int64) {
		if percent := done * 100 / max(total, 1); percent > last {
			last = percent
			report(wire.Progress{Step: "verify " + string(m.Ref), Note: fmt.Sprintf("%d %%", percent)})
		}
	})
	if err == nil {
		report(wire.Progress{Step: "verify " + string(m.Ref), Finished: true, Took: time.Since(begun)})
	}
	return m.Ref, err
}

// Shutdown makes the daemon leave.
func (d *Daemon) Shutdown(ctx context.Context, s wire.Shutdown, report func(wire.Progress)) error {
	if s.Machines {
		if err := d.stopAll(ctx, report); err != nil {
			return err
		}
	}
	d.leaveSoon()
	return nil
}

// stopAll stops every machine, all at the same time.
func (d *Daemon) stopAll(ctx context.Context, report func(wire.Progress)) error {
	d.mu.Lock()
	machines := d.machines()
	d.mu.Unlock()
	errs := make(chan error, len(machines))
	for _, m := range machines {
		report(wire.Progress{Step: "stop " + string(m.ws.Name)})
		go func() {
			err := d.stop(ctx, m.ws, 0, nil)
			if problem.KindOf(err) == problem.Refused && !d.live(m.ws.ID) {
				err = nil // it ended by itself
			}
			errs <- err
		}()
	}
	var failed []string
	for range machines {
		if err := <-errs; err != nil {
			failed = append(failed, err.Error())
		}
	}
	if failed != nil {
		return problem.New(problem.Failed, strings.Join(failed, "; "), "The daemon stays: bromure-cli vm ls")
	}
	return nil
}

func (d *Daemon) leaving() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closing
}
