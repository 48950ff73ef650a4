package controltest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"bromure.io/tui/images"
	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/internal/verb"
	"bromure.io/tui/vm"
)

// PlanAge is how old everything in a plan of the fake is.
const PlanAge = 3 * time.Hour

// Plan is [control.Service.Plan]. A workspace of the fake has settings and a MAC address, and disks once it was started.
func (f *Fake) Plan(_ context.Context, p wire.PlanRequest) (verb.Plan, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	plan, err := f.plan(p)
	if err != nil {
		return verb.Plan{}, err
	}
	plan.Made = time.Now()
	plan.ID = fmt.Sprintf("plan%d", len(f.plans)+1)
	f.plans[plan.ID] = plan
	return plan, nil
}

// plan makes a plan by the functions that the daemon uses. The lock is held.
func (f *Fake) plan(p wire.PlanRequest) (verb.Plan, error) {
	if row, _ := verb.Find(p.Verb); row.Noun == "image" {
		plan := verb.Plan{Verb: p.Verb, Subject: verb.Subject{Kind: "image", ID: p.Subject, Name: p.Subject}}
		for _, m := range f.images {
			if string(m.Ref) == p.Subject {
				plan.Losses = []verb.Item{{Owner: "images", Kind: "image", What: m.Distro, Path: p.Subject, Own: m.Files[0].Stored}}
				plan.WayBack = []string{"build it again"}
			}
		}
		if p.Verb == verb.ImageRm && plan.Losses == nil {
			return plan, problem.New(problem.NotFound, fmt.Sprintf("there is no image %q", p.Subject), "bromure-cli image ls")
		}
		return plan, nil
	}
	if p.Verb == verb.Uninstall {
		return verb.Plan{Verb: p.Verb, Subject: verb.Subject{Kind: "installation", ID: "installation", Name: "uninstall"},
			Losses: []verb.Item{{Owner: "installation", Kind: "workspaces", What: "the workspaces", Path: "workspaces"}}}, nil
	}
	w, err := f.find(p.Subject)
	if err != nil {
		return verb.Plan{}, err
	}
	inv := f.inventory(w)
	switch p.Verb {
	case verb.Reset:
		return vm.PlanReset(w.Workspace.Workspace, inv), nil
	case verb.EraseHome:
		return vm.PlanEraseHome(w.Workspace.Workspace, inv), nil
	}
	return vm.PlanDelete(w.Workspace.Workspace, inv), nil
}

func (f *Fake) inventory(w *space) []verb.Item {
	at := time.Now().Add(-PlanAge)
	thing := func(kind, path string, own int64) verb.Item {
		return verb.Item{Owner: vm.OwnerWorkspace, Kind: kind, What: vm.RowOf(kind).What, Path: path, Own: own, Changed: at}
	}
	inv := []verb.Item{thing(vm.KindSettings, "workspace.json", 4096), {Owner: vm.OwnerWorkspace, Kind: vm.KindMAC, What: "the reserved MAC address " + string(w.MAC)}}
	if w.DiskFormat != "" {
		inv = append(inv, thing(vm.KindDisk, "disk.img", 300<<20), thing(vm.KindHome, "home.img", 5<<20))
	}
	return inv
}

// carryOut does what a confirmed plan says.
func (f *Fake) carryOut(id string) (wire.Progress, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, ok := f.plans[id]
	if !ok {
		return wire.Progress{}, problem.New(problem.NotFound, "there is no such plan any more", "Ask for a new one.")
	}
	delete(f.plans, id)
	defer f.change()
	if p.Subject.Kind == "image" {
		f.images = slices.DeleteFunc(f.images, func(m images.Manifest) bool { return string(m.Ref) == p.Subject.ID })
		return wire.Progress{}, nil
	}
	w, ok := f.spaces[vm.ID(p.Subject.ID)]
	if !ok {
		return wire.Progress{}, problem.New(problem.NotFound, "the workspace no longer exists", "")
	}
	if err := (vm.Status{State: w.State}).Allows(p.Verb, w.Name); err != nil {
		return wire.Progress{}, err
	}
	now, err := f.plan(wire.PlanRequest{Verb: p.Verb, Subject: p.Subject.ID})
	if err != nil {
		return wire.Progress{}, err
	}
	if now.Seen != p.Seen {
		now.ID, now.Made = id+"b", time.Now()
		f.plans[now.ID] = now
		return wire.Progress{NewPlan: &now}, problem.New(problem.Refused, "what the plan is about has changed meanwhile", "Look at the new plan.")
	}
	switch p.Verb {
	case verb.Delete:
		delete(f.spaces, w.ID)
	case verb.Reset:
		w.DiskFormat, w.CloneKind, w.Image = "", "", ""
	}
	return wire.Progress{}, nil
}
