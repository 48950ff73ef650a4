package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"bromure.io/tui/images"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/internal/removal"
	"bromure.io/tui/internal/verb"
	"bromure.io/tui/vm"
)

// Steps that follow the removal of files; see removal.Remover.After. Each may be done twice.
const (
	afterForgetDisk = "forget the disk" // workspace.json says nothing of a disk any more
	afterReleaseMAC = "release the MAC address"
)

// newRemover makes the one way in which this daemon removes something of the user's.
func (d *Daemon) newRemover() *removal.Remover {
	return &removal.Remover{
		Root: d.opts.Root,
		Owner: func(v verb.Verb) (removal.Owner, error) {
			switch v {
			case verb.Reset, verb.EraseHome, verb.Delete:
				return workspaceOwner{d}, nil
			case verb.ImageRm, verb.ImagePrune:
				return imageOwner{d}, nil
			case verb.Uninstall:
				return installationOwner{d}, nil
			}
			return nil, problem.New(problem.Usage, fmt.Sprintf("%q removes nothing", v), "")
		},
		After: map[string]func(string) error{
			afterForgetDisk: d.forgetDisk,
			afterLeave:      d.leaveForGood,
			afterReleaseMAC: func(id string) error { return d.store.Release(context.Background(), vm.ID(id)) },
		},
		Now: d.now,
		Log: d.log,
	}
}

// workspaceOwner plans the verbs that remove something of a workspace. The subject is its ID.
type workspaceOwner struct{ d *Daemon }

func (o workspaceOwner) Draft(_ context.Context, v verb.Verb, subject string) (removal.Draft, error) {
	id, err := vm.ParseID(subject)
	if err != nil {
		return removal.Draft{}, problem.Wrap(problem.Usage, err, "", "")
	}
	ws, err := o.d.store.Load(id)
	if err != nil {
		// One whose settings are damaged can be deleted, and nothing else.
		if _, lerr := os.Lstat(string(o.d.opts.Root.Workspace(subject))); v != verb.Delete || lerr != nil {
			return removal.Draft{}, vanished(err, id)
		}
		ws = vm.Workspace{ID: id, Name: vm.Name(id.Short())}
	}
	inv, err := o.d.store.Inventory(id)
	if err != nil {
		return removal.Draft{}, vanished(err, id)
	}
	dir := path.Join("workspaces", subject)
	var dr removal.Draft
	switch v {
	case verb.Reset:
		dr.Plan, dr.After = vm.PlanReset(ws, inv), []string{afterForgetDisk}
	case verb.EraseHome:
		dr.Plan = vm.PlanEraseHome(ws, inv)
	case verb.Delete:
		// The directory goes as a whole, in one step: there is no time at which half a workspace is listed.
		fi, err := os.Lstat(string(o.d.opts.Root.Workspace(subject)))
		if err != nil {
			return removal.Draft{}, vanished(err, id)
		}
		dr.Plan, dr.After = vm.PlanDelete(ws, inv), []string{afterReleaseMAC}
		dr.Moves = []removal.Move{{From: dir, Identity: removal.Identity(fi)}}
		return dr, nil
	}
	for _, l := range dr.Plan.Losses {
		if l.Path != "" {
			dr.Moves = append(dr.Moves, removal.Move{From: path.Join(dir, l.Path), Identity: l.Identity})
		}
	}
	return dr, nil
}

// vanished words that a workspace is not there any more.
func vanished(err error, id vm.ID) error {
	if errors.Is(err, os.ErrNotExist) || problem.KindOf(err) == problem.NotFound {
		return problem.Wrap(problem.NotFound, err, fmt.Sprintf("workspace %s no longer exists", id.Short()), "bromure-cli workspaces ls")
	}
	return err
}

// Hold locks the workspace against everything that starts or changes its machine.
func (o workspaceOwner) Hold(_ context.Context, v verb.Verb, subject string) (func(), error) {
	id, err := vm.ParseID(subject)
	if err != nil {
		return nil, problem.Wrap(problem.Usage, err, "", "")
	}
	name := vm.Name(id.Short())
	if ws, err := o.d.store.Load(id); err == nil {
		name = ws.Name
	}
	o.d.mu.Lock()
	err = o.d.status(id).Allows(v, name)
	o.d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	lock, err := o.d.store.Lock(id)
	if err != nil {
		return nil, vanished(err, id)
	}
	return lock.Unlock, nil
}

// forgetDisk makes the next start choose and clone a base anew.
func (d *Daemon) forgetDisk(subject string) error {
	id, err := vm.ParseID(subject)
	if err != nil {
		return err
	}
	_, err = d.store.Update(id, func(w *vm.Workspace) error {
		w.Image, w.DiskFormat, w.CloneKind = "", "", ""
		return nil
	})
	if problem.KindOf(err) == problem.NotFound {
		return nil // deleted since
	}
	return err
}

// imageOwner plans the removal of base images: of the one that the subject names, or with ImagePrune of all that
// no workspace uses.
type imageOwner struct{ d *Daemon }

func (o imageOwner) Draft(_ context.Context, v verb.Verb, subject string) (removal.Draft, error) {
	users, err := o.users()
	if err != nil {
		return removal.Draft{}, err
	}
	list, err := o.d.images.List()
	if err != nil {
		return removal.Draft{}, err
	}
	var goes []images.Manifest
	p := verb.Plan{Verb: v, Subject: verb.Subject{Kind: "image", ID: subject, Name: subject}}
	if v == verb.ImageRm {
		m, err := o.d.image(subject)
		if err != nil {
			return removal.Draft{}, err
		}
		if u := users[m.Ref]; len(u) > 0 {
			return removal.Draft{}, problem.New(problem.Refused, fmt.Sprintf("the image %s is in use: %s", m.Ref, u[0]),
				"Reset or delete what uses it first.")
		}
		goes = append(goes, m)
	} else {
		p.Subject = verb.Subject{Kind: "image", ID: "unused", Name: "unused"}
		for n, m := range list {
			if n > 0 && len(users[m.Ref]) == 0 { // the newest is what the next workspace starts from
				goes = append(goes, m)
			}
		}
		if len(list) > 0 {
			p.Keeps = append(p.Keeps, "the newest image "+string(list[0].Ref))
		}
	}
	var dr removal.Draft
	for _, m := range goes {
		dir := o.d.opts.Root.Image(string(m.Ref))
		fi, err := os.Lstat(string(dir))
		if err != nil {
			return removal.Draft{}, err
		}
		_, own, err := o.d.images.Sizes(m.Ref)
		if err != nil {
			return removal.Draft{}, err
		}
		it := verb.Item{
			Owner: "images", Kind: "image", What: fmt.Sprintf("%s %s, kernel %s", m.Distro, m.Release, m.Kernel),
			Path: string(m.Ref), Identity: removal.Identity(fi), Own: own, Changed: m.Created, Count: len(m.Files),
		}
		p.Losses = append(p.Losses, it)
		dr.Moves = append(dr.Moves, removal.Move{From: filepath.Join(filepath.Base(o.d.opts.Root.Images()), it.Path), Identity: it.Identity})
	}
	if len(goes) > 0 {
		p.WayBack = []string{"build it again from the package sources (bromure-cli image build)"}
	}
	p.Keeps = append(p.Keeps, "every workspace")
	p.Seen = verb.Fingerprint(p.Losses)
	dr.Plan = p
	return dr, nil
}

// users says which workspaces need which image: their disk was cloned from it, or it was chosen for them.
func (o imageOwner) users() (map[images.Ref][]string, error) {
	entries, err := o.d.store.List()
	if err != nil {
		return nil, err
	}
	users := map[images.Ref][]string{}
	for _, e := range entries {
		ws := e.Workspace
		if e.Err != nil {
			// Its settings cannot be read, so it might need any image.
			return nil, problem.Wrap(problem.Refused, e.Err, fmt.Sprintf("it cannot be told which image workspace %s needs", e.ID.Short()), "Repair or delete it first.")
		}
		if ws.Image == "" {
			continue
		}
		why := fmt.Sprintf("%q boots its kernel, whose modules are on its disk", ws.Name)
		// The format is recorded just before the disk gets its name: a clone that was cut short there leaves no disk.
		_, noDisk := os.Lstat(o.d.opts.Root.Workspace(string(ws.ID)).Disk())
		switch {
		case ws.DiskFormat == "", errors.Is(noDisk, os.ErrNotExist):
			why = fmt.Sprintf("%q is to start from it", ws.Name)
		case ws.DiskFormat == vm.QCOW2:
			why = fmt.Sprintf("the disk of %q is an overlay on it", ws.Name)
		}
		users[images.Ref(ws.Image)] = append(users[images.Ref(ws.Image)], why)
	}
	return users, nil
}

func (o imageOwner) Hold(context.Context, verb.Verb, string) (func(), error) {
	// A start reads its image under the workspace's lock and is refused here by the daemon's own order:
	// while images go, nothing starts.
	o.d.mu.Lock()
	defer o.d.mu.Unlock()
	for _, e := range o.d.entries {
		if e.op != nil && e.op.verb == verb.Start {
			return nil, problem.New(problem.Refused, "a workspace is starting", "Wait for it: bromure-cli vm ls")
		}
	}
	if o.d.building > 0 {
		return nil, problem.New(problem.Refused, "an image is being built", "Wait for it.")
	}
	o.d.removing++
	return func() {
		o.d.mu.Lock()
		o.d.removing--
		o.d.mu.Unlock()
	}, nil
}
