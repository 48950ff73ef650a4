// Package controltest has a daemon for tests of fronts: a [control.Service] that keeps workspaces in
// memory and runs "guest" programs as ordinary processes, and the contract that it shares with the real one.
package controltest

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"bromure.io/tui/images"
	"bromure.io/tui/internal/control"
	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/internal/verb"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/guest"
)

// A workspace's notes may hold one of these, to make something go wrong with it.
const (
	FailStart = "fake: no ssh"      // starts end broken at the step "ssh"
	SlowStart = "fake: slow"        // a start takes 1.2 s, long enough for progress to show
	HangStart = "fake: hang"        // a start ends only with its context
	Marked    = "fake: compromised" // it is marked compromised
)

// Fake is a [control.Service] in memory.
type Fake struct {
	root    layout.Root
	version string
	started time.Time
	leave   func() // asks the daemon around it to end

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each change
	seq     uint64
	spaces  map[vm.ID]*space
	plans   map[string]verb.Plan // that wait for their answer
	closing bool
	images  []images.Manifest
}

type space struct {
	wire.Workspace
	consoles map[string]*console
	serial   string
}

var _ control.Service = (*Fake)(nil)

// NewFake returns a Fake with one image. leave may be nil; it is called once, by Shutdown.
func NewFake(root layout.Root, version string, leave func()) *Fake {
	return &Fake{
		root: root, version: version, started: time.Now(), leave: leave,
		changed: make(chan struct{}), spaces: map[vm.ID]*space{}, plans: map[string]verb.Plan{},
		images: []images.Manifest{manifest("debian-12-20261130")},
	}
}

func manifest(ref images.Ref) images.Manifest {
	return images.Manifest{
		Version: images.ManifestVersion, Ref: ref, Distro: "debian", Suite: "bookworm", Release: "12.4", Architecture: "amd64",
		Kernel: "6.1.0-test", Created: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), Source: "built",
		Packages: []images.Package{{Name: "bash", Version: "5.2"}},
		Files:    []images.File{{Name: "base.img", Size: images.LogicalSize, Stored: 356 << 20, SHA256: strings.Repeat("ab", 32)}},
	}
}

// change tells the watchers. The lock is held.
func (f *Fake) change() {
	f.seq++
	close(f.changed)
	f.changed = make(chan struct{})
}

// Health is [control.Service.Health].
func (f *Fake) Health() wire.Health {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.health()
}

// health has the lock held.
func (f *Fake) health() wire.Health {
	return wire.Health{Version: f.version, API: wire.API, PID: os.Getpid(), Root: f.root, Started: f.started, Closing: f.closing}
}

// Watch is [control.Service.Watch].
func (f *Fake) Watch(ctx context.Context) iter.Seq[wire.Snapshot] {
	return func(yield func(wire.Snapshot) bool) {
		for ctx.Err() == nil {
			snap, changed := f.snapshot()
			if !yield(snap) {
				return
			}
			select {
			case <-ctx.Done():
			case <-changed:
			}
		}
	}
}

func (f *Fake) snapshot() (wire.Snapshot, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := wire.Snapshot{Seq: f.seq, Now: time.Now(), Health: f.health(), Backend: "fake", FreeBytes: 41 << 30, Closing: f.closing,
		Capabilities: capabilities()}
	for _, w := range f.spaces {
		s.Workspaces = append(s.Workspaces, w.view())
	}
	slices.SortFunc(s.Workspaces, func(a, b wire.Workspace) int { return strings.Compare(a.Name.Key(), b.Name.Key()) })
	return s, f.changed
}

func (w *space) view() wire.Workspace {
	v := w.Workspace
	v.Steps = slices.Clone(v.Steps)
	v.Consoles = len(w.consoles)
	return v
}

func capabilities() vm.Capabilities {
	return vm.Capabilities{Accelerator: vm.Emulated, Why: "/dev/kvm is missing", Hint: "Join the group kvm.", Version: "7.2.22", Formats: []vm.DiskFormat{vm.Raw}, Survives: true}
}

// Create is [control.Service.Create].
func (f *Fake) Create(_ context.Context, c wire.Create) (wire.Workspace, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if c.Name == "" {
		c.Name = fmt.Sprintf("workspace-%d", len(f.spaces)+1)
	}
	name, err := vm.ParseName(c.Name)
	if err != nil {
		return wire.Workspace{}, problem.Wrap(problem.Usage, err, "", "")
	}
	for _, w := range f.spaces {
		if w.Name.Key() == name.Key() {
			return wire.Workspace{}, problem.New(problem.Refused, fmt.Sprintf("create %q: there is a workspace of that name", name), "Choose another name.")
		}
	}
	w := &space{consoles: map[string]*console{}, Workspace: wire.Workspace{State: vm.Off, Workspace: vm.Workspace{
		Version: vm.ConfigVersion, ID: vm.NewID(), Name: name, MAC: vm.NewMAC(), Created: time.Now(), Image: c.Image, Color: c.Color, Notes: c.Notes, Throwaway: c.Throwaway,
		CPUs: or(c.CPUs, vm.DefaultCPUs), MemoryMiB: or(c.MemoryMiB, vm.DefaultMemoryMiB), HomeMiB: or(c.HomeMiB, vm.DefaultHomeMiB),
	}}}
	if err := w.Check(); err != nil {
		return wire.Workspace{}, problem.Wrap(problem.Usage, err, "", "")
	}
	w.Dir = string(f.root.Workspace(string(w.ID)))
	if c.Notes == Marked {
		w.Compromise = &vm.Compromise{Reason: "a placeholder was sent to evil.example", At: time.Now()}
	}
	f.spaces[w.ID] = w
	f.change()
	return w.view(), nil
}

func or[T int | int64](n, other T) T {
	if n == 0 {
		return other
	}
	return n
}

// find resolves a reference. The lock is held.
func (f *Fake) find(ref string) (*space, error) {
	var found []*space
	for _, w := range f.spaces {
		if w.Name.Key() == vm.Name(ref).Key() || string(w.ID) == ref {
			return w, nil
		}
		if len(ref) >= 2 && strings.HasPrefix(string(w.ID), ref) {
			found = append(found, w)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, problem.New(problem.NotFound, fmt.Sprintf("no workspace called %q", ref), "`bromure-cli workspaces ls` lists them; `bromure-cli workspaces create` makes one.")
	}
	return nil, problem.New(problem.Usage, fmt.Sprintf("%q is the beginning of %d IDs", ref, len(found)), "Write more of it.")
}

// allowed finds a workspace that allows the verb. The lock is held.
func (f *Fake) allowed(ref string, v verb.Verb) (*space, error) {
	w, err := f.find(ref)
	if err != nil {
		return nil, err
	}
	return w, vm.Status{State: w.State, Compromised: w.Compromise}.Allows(v, w.Name)
}

// Workspace is [control.Service.Workspace].
func (f *Fake) Workspace(_ context.Context, ref string) (wire.Workspace, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w, err := f.find(ref)
	if err != nil {
		return wire.Workspace{}, err
	}
	return w.view(), nil
}

// Ports is [control.Service.Ports].
func (f *Fake) Ports(_ context.Context, ref string) ([]guest.Port, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, err := f.allowed(ref, verb.Exec); err != nil {
		return nil, err
	}
	return []guest.Port{
		{Proto: "tcp", Address: "0.0.0.0", Port: 8080, Process: "ser\x1b[2Jver", PID: 7},
		{Proto: "tcp6", Address: "::1", Port: 5432, Process: "postgres", PID: 8, Loopback: true},
	}, nil
}

// Doctor is [control.Service.Doctor].
func (f *Fake) Doctor(_ context.Context, fresh bool) (vm.Capabilities, error) {
	c := capabilities()
	if fresh {
		c.Why += " (looked again)"
	}
	return c, nil
}

// Images is [control.Service.Images].
func (f *Fake) Images(context.Context) ([]images.Manifest, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.images), nil
}

// VerifyImage is [control.Service.VerifyImage]. An image called damaged-… is.
func (f *Fake) VerifyImage(_ context.Context, ref string, report func(wire.Progress)) (images.Ref, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.images {
		if ref != "" && string(m.Ref) != ref {
			continue
		}
		say(report, wire.Progress{Step: "hash base.img"})
		if strings.HasPrefix(string(m.Ref), "damaged") {
			return m.Ref, problem.New(problem.Unverified, "verify base.img: it is not what the manifest says", "Build it again.")
		}
		return m.Ref, nil
	}
	return "", problem.New(problem.NotFound, fmt.Sprintf("no image %q", ref), "`bromure-cli image ls` lists the images.")
}

func say(report func(wire.Progress), p wire.Progress) {
	if report != nil {
		report(p)
	}
}

// Shutdown is [control.Service.Shutdown].
func (f *Fake) Shutdown(_ context.Context, s wire.Shutdown, report func(wire.Progress)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.spaces {
		if s.Machines && w.State == vm.Running {
			say(report, wire.Progress{Step: "stop " + string(w.Name)})
			w.halt()
		}
	}
	first := !f.closing
	f.closing = true
	f.change()
	if first && f.leave != nil {
		f.leave()
	}
	return nil
}

// Close ends every program and console.
func (f *Fake) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, w := range f.spaces {
		w.halt()
	}
}

// Logs is [control.Service.Logs].
func (f *Fake) Logs(ctx context.Context, ref string, kind layout.LogKind, q wire.LogQuery) (io.ReadCloser, error) {
	text := "daemon: started\n"
	if kind != wire.DaemonLog {
		f.mu.Lock()
		w, err := f.find(ref)
		if err == nil {
			text = fmt.Sprintf("%s log of %s\n%s", kind, w.Name, w.serial)
		}
		f.mu.Unlock()
		if err != nil {
			return nil, err
		}
	}
	if lines := strings.SplitAfter(text, "\n"); q.Tail >= 0 && len(lines)-1 > q.Tail {
		text = strings.Join(lines[len(lines)-1-q.Tail:], "")
	}
	r, w := io.Pipe()
	go func() {
		if _, err := io.WriteString(w, text); err == nil && q.Follow {
			<-ctx.Done()
		}
		w.Close()
	}()
	return r, nil
}
