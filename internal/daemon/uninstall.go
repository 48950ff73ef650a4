package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"bromure.io/tui/internal/failpoint"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/internal/removal"
	"bromure.io/tui/internal/verb"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/store"
)

// afterLeave makes the daemon leave when everything that it kept is gone.
const afterLeave = "leave"

// installationOwner plans the removal of the whole data root, in an order in which what is cut short can be
// finished: workspaces, images, settings. The subject is always the same.
type installationOwner struct{ d *Daemon }

// Installation is the subject of an uninstall.
const Installation = "installation"

// rootWords says what the entries of a data root are; what is not here was not made by this program.
func rootWords(root layout.Root) map[string]string {
	name := filepath.Base
	return map[string]string{
		name(root.Workspaces()): "the workspaces",
		name(root.Images()):     "the base images",
		name(root.MACs()):       "the reserved MAC addresses",
		name(root.Settings()):   "the settings",
		name(root.AccelCache()): "the answer of the accelerator probe",
		name(root.Endpoint()):   "where the daemon listens",
		name(root.Logs()):       "the daemon's logs",
	}
}

// rootOrder is the order in which they go.
func rootOrder(root layout.Root) []string {
	name := filepath.Base
	return []string{
		name(root.Workspaces()), name(root.Images()), name(root.MACs()), name(root.Settings()),
		name(root.AccelCache()), name(root.Endpoint()), name(root.Logs()),
	}
}

func (o installationOwner) Draft(_ context.Context, v verb.Verb, _ string) (removal.Draft, error) {
	root := o.d.opts.Root
	entries, err := os.ReadDir(string(root))
	if err != nil {
		return removal.Draft{}, err
	}
	words, order := rootWords(root), rootOrder(root)
	slices.SortStableFunc(entries, func(a, b fs.DirEntry) int {
		return index(order, a.Name()) - index(order, b.Name())
	})
	dr := removal.Draft{After: []string{afterLeave}, Plan: verb.Plan{
		Verb:    v,
		Subject: verb.Subject{Kind: Installation, ID: Installation, Name: "uninstall"},
	}}
	skip := []string{filepath.Base(root.Trash()), filepath.Base(root.DaemonLock())} // they are in use until the end
	for _, e := range entries {
		what, known := words[e.Name()]
		if !known {
			if !slices.Contains(skip, e.Name()) {
				dr.Plan.Keeps = append(dr.Plan.Keeps, fmt.Sprintf("%s, which this program did not make", e.Name()))
			}
			continue
		}
		it, err := o.item(e, what)
		if err != nil {
			return removal.Draft{}, err
		}
		dr.Plan.Losses = append(dr.Plan.Losses, it)
		dr.Moves = append(dr.Moves, removal.Move{From: e.Name(), Identity: it.Identity})
	}
	// The workspaces by name: who uninstalls must see what goes.
	list, err := o.d.store.List()
	if err != nil {
		return removal.Draft{}, err
	}
	seen := slices.Clone(dr.Plan.Losses)
	for i, l := range dr.Plan.Losses {
		if l.Path == filepath.Base(root.Workspaces()) {
			for n, ws := range list {
				dr.Plan.Losses[i].What += fmt.Sprintf("%s%q", map[bool]string{true: " ", false: ", "}[n == 0], ws.Workspace.Name)
				seen = append(seen, verb.Item{Owner: "installation", Kind: "workspace", Path: string(ws.ID)})
			}
		}
	}
	dr.Plan.Seen = verb.Fingerprint(seen)
	dr.Plan.Keeps = append(dr.Plan.Keeps, "shared host folders, untouched", "the program itself: delete its files")
	return dr, nil
}

// item describes an entry of the data root with all that is in it.
func (o installationOwner) item(e fs.DirEntry, what string) (verb.Item, error) {
	path := filepath.Join(string(o.d.opts.Root), e.Name())
	fi, err := os.Lstat(path)
	if err != nil {
		return verb.Item{}, err
	}
	it := verb.Item{Owner: Installation, Kind: e.Name(), What: what, Path: e.Name(), Changed: fi.ModTime()}
	if fi.IsDir() {
		it.Identity = removal.Identity(fi) // files are written anew all the time
	}
	err = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return nil // gone meanwhile: a log that was rotated
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			it.Own += st.Blocks * 512
		}
		return nil
	})
	return it, err
}

func index(list []string, s string) int {
	if i := slices.Index(list, s); i >= 0 {
		return i
	}
	return len(list)
}

// Hold refuses while anything runs, also what this daemon knows nothing of, and lets nothing begin.
func (o installationOwner) Hold(context.Context, verb.Verb, string) (release func(), err error) {
	list, err := o.d.store.List()
	if err != nil {
		return nil, err
	}
	var locks []*store.Lock
	unlock := func() {
		for _, l := range locks {
			l.Unlock()
		}
	}
	defer func() {
		if err != nil {
			unlock()
		}
	}()
	for _, e := range list {
		lock, err := o.d.store.Lock(e.ID)
		if errors.Is(err, vm.ErrLocked) {
			return nil, problem.Wrap(problem.Refused, err, "uninstall", "Stop the machines first: bromure-cli vm stop")
		}
		if err == nil { // else it is no workspace that could run
			locks = append(locks, lock)
		}
	}
	o.d.mu.Lock()
	defer o.d.mu.Unlock()
	for id, e := range o.d.entries {
		if e.machine != nil || e.op != nil {
			return nil, problem.New(problem.Refused, fmt.Sprintf("uninstall: workspace %s is in use", id.Short()), "Stop the machines first: bromure-cli vm stop")
		}
	}
	if o.d.building > 0 {
		return nil, problem.New(problem.Refused, "uninstall: an image is being built", "Wait for it.")
	}
	o.d.closing = true // for good if it works: there is nothing left to serve
	return func() {
		unlock()
		o.d.mu.Lock()
		defer o.d.mu.Unlock()
		o.d.closing = o.d.uninstalled
	}, nil
}

// leaveForGood is the step after an uninstall's files are gone.
func (d *Daemon) leaveForGood(string) error {
	d.mu.Lock()
	d.uninstalled = true
	d.mu.Unlock()
	return nil
}

// removeRoot removes what a daemon needs until its end, after an uninstall. A data root with something of the user's in it stays.
func (d *Daemon) removeRoot() {
	root := d.opts.Root
	_ = os.RemoveAll(root.Trash()) // empty but for the reserve
	failpoint.Here("uninstall: trash removed")
	_ = os.RemoveAll(root.Logs()) // the last lines of this process
	failpoint.Here("uninstall: logs removed")
	for _, path := range []string{root.Endpoint(), root.MACs(), root.AccelCache(),
		root.WorkspacesLock(), root.Workspaces(), root.Images(), root.DaemonLock(), string(root)} {
		_ = os.Remove(path)
		failpoint.Here("uninstall: " + filepath.Base(path) + " removed")
	}
}
