// Package daemon fits the machinery into the use cases and keeps what runs: one process per user
// and data root. It decides nothing by itself: the order of a start is internal/boot's, what a workspace allows
// is vm's, and how a disk is cloned is vm/disk's. Read daemon.go first, then entry.go (operations),
// machine.go (one running machine) and adopt.go (machines of an earlier daemon).
package daemon

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	imagestore "bromure.io/tui/images/store"
	"bromure.io/tui/internal/boot"
	"bromure.io/tui/internal/control"
	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/internal/removal"
	"bromure.io/tui/internal/ring"
	"bromure.io/tui/internal/snapshot"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/store"
)

// DefaultIdle is how long a daemon without machines and fronts stays.
const DefaultIdle = 10 * time.Minute

// Options is everything a daemon needs to know.
type Options struct {
	Root    layout.Root
	Runtime layout.Runtime
	Version string

	Backend   vm.Backend     // nil: the platform's own
	Idle      time.Duration  // 0: DefaultIdle
	Deadlines boot.Deadlines // zero: the defaults
	Log       io.Writer      // in addition to the ring; may be nil
}

// Daemon owns everything that runs.
type Daemon struct {
	opts    Options
	log     *slog.Logger
	began   time.Time
	store   *store.Store
	images  imagestore.Store
	backend vm.Backend
	hub     *snapshot.Hub
	remover *removal.Remover
	usage   usages
	dirty   chan struct{} // capacity 1: the snapshot is out of date

	mu          sync.Mutex
	entries     map[vm.ID]*entry
	closing     bool
	building    int  // image builds under way
	uninstalled bool // nothing is left to serve
	removing    int  // removals of images under way: nothing starts meanwhile
	caps        vm.Capabilities

	ops  sync.WaitGroup  // operations under way
	life context.Context // of operations: it ends only when the daemon must go at once
	quit chan struct{}   // closed when somebody asked the daemon to leave
	once sync.Once
}

// ErrRunning: another daemon of this user has this data root.
var ErrRunning = problem.New(problem.Refused, "a daemon runs already with this data root", "bromure-cli daemon status")

// Run is the daemon's whole life. It returns when ctx ends (a signal), when a front asked it to leave, or when it
// was idle for long enough; operations under way are finished first, and machines go on for the next daemon. An
// error is [ErrRunning], or a reason why it could not begin.
func Run(ctx context.Context, opts Options) error {
	if err := layout.Ensure(string(opts.Root)); err != nil {
		return fmt.Errorf("open the data root: %w", err)
	}
	if err := layout.Ensure(string(opts.Runtime)); err != nil {
		return fmt.Errorf("open the runtime directory: %w", err)
	}
	lock, err := lockFile(opts.Root.DaemonLock())
	if err != nil {
		return err
	}
	defer lock.Close()

	logs, err := openDaemonLog(opts)
	if err != nil {
		return err
	}
	defer logs.Close()

	d, err := open(opts, slog.New(slog.NewTextHandler(logs, nil)))
	if err != nil {
		return err
	}
	l, err := control.Listen(opts.Root, opts.Runtime)
	if err != nil {
		return err
	}
	d.log.Info("daemon begins", "version", opts.Version, "pid", os.Getpid(), "root", opts.Root)
	if err := d.remover.Recover(); err != nil {
		d.log.Error("finish removals that were cut short", "error", err)
	}
	if d.uninstalled { // the last daemon was cut short in the middle of it
		l.Close()
		d.removeRoot()
		return problem.New(problem.Refused, "an uninstall that was cut short is finished now", "Start again to begin anew.")
	}
	d.adoptAll()
	return d.serve(ctx, l)
}

// open makes a daemon that does not serve yet.
func open(opts Options, log *slog.Logger) (*Daemon, error) {
	st, err := store.Open(opts.Root)
	if err != nil {
		return nil, fmt.Errorf("open the workspaces: %w", err)
	}
	d := &Daemon{
		opts: opts, log: log, began: time.Now(),
		store:   st,
		images:  imagestore.Store{Dir: opts.Root.Images()},
		backend: opts.Backend,
		dirty:   make(chan struct{}, 1),
		entries: map[vm.ID]*entry{},
		quit:    make(chan struct{}),
		life:    context.Background(),
	}
	d.remover = d.newRemover()
	if err := d.remover.Ready(); err != nil {
		return nil, err
	}
	if d.backend == nil {
		d.backend = d.platformBackend()
	}
	d.hub = snapshot.NewHub(wire.Snapshot{})
	d.publish()
	return d, nil
}

// serve answers fronts until it is time to leave.
func (d *Daemon) serve(ctx context.Context, l net.Listener) error {
	srv := control.NewServer(d, d.log)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(l) }()

	background, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { d.publishLoop(background) })
	wg.Go(func() { d.pollLoop(background) })
	wg.Go(func() { d.learnCapabilities(background) })
	wg.Go(func() { d.idleLoop(background, srv.Idle) })

	var err error
	select {
	case <-ctx.Done():
		d.log.Info("daemon leaves: signal")
	case <-d.quit:
		d.log.Info("daemon leaves")
	case err = <-served:
		d.log.Error("serve the control socket", "error", err)
	}
	d.drain()
	shut, done := context.WithTimeout(context.Background(), 2*time.Second)
	_ = srv.Shutdown(shut)
	done()
	cancel()
	wg.Wait()
	if d.uninstalled {
		d.removeRoot()
	}
	// Only what is empty goes: machines that live on have their sockets there.
	_ = os.Remove(d.opts.Runtime.Machines())
	_ = os.Remove(string(d.opts.Runtime))
	d.log.Info("daemon ends")
	return err
}

// leaveSoon makes serve return. It may be called more than once.
func (d *Daemon) leaveSoon() { d.once.Do(func() { close(d.quit) }) }

// drain refuses new verbs, waits for those under way, and lets go of the machines.
func (d *Daemon) drain() {
	d.mu.Lock()
	d.closing = true
	d.mu.Unlock()
	d.publish()
	d.ops.Wait()
	d.hub.Close()
	d.mu.Lock()
	machines := d.machines()
	d.mu.Unlock()
	for _, m := range machines {
		m.Close()
		if err := m.vmm.Release(); err != nil {
			d.log.Error("let go of a machine", "workspace", m.ws.ID, "error", err)
		}
	}
}

// machines lists what runs. Daemon.mu is held.
func (d *Daemon) machines() []*machine {
	var ms []*machine
	for _, e := range d.entries {
		if e.machine != nil {
			ms = append(ms, e.machine)
		}
	}
	return ms
}

func (d *Daemon) now() time.Time { return time.Now() }

func openDaemonLog(opts Options) (io.WriteCloser, error) {
	if err := os.MkdirAll(opts.Root.Logs(), layout.DirMode); err != nil {
		return nil, err
	}
	w, err := ring.Open(opts.Root.DaemonLog(), daemonRing)
	if err != nil {
		return nil, fmt.Errorf("open the daemon's log: %w", err)
	}
	if opts.Log == nil {
		return w, nil
	}
	return struct {
		io.Writer
		io.Closer
	}{io.MultiWriter(w, opts.Log), w}, nil
}
