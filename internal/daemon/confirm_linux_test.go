package daemon_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/internal/verb"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/store"
)

// Field case F70: what is confirmed is the workspace that the plan named, whatever happens to the list meanwhile.
func TestPlanIsOfOneWorkspace(t *testing.T) {
	p, _, _ := furnished(t)
	d := p.Start(t, nil)
	create := func(name string) vm.ID {
		t.Helper()
		w, err := d.Create(t.Context(), wire.Create{Name: name, MemoryMiB: vm.MinMemoryMiB, HomeMiB: vm.MinHomeMiB})
		if err != nil {
			t.Fatal(err)
		}
		return w.ID
	}
	there := func(id vm.ID) bool {
		_, err := os.Lstat(string(p.Root.Workspace(string(id))))
		return err == nil
	}
	a, b, c := create("a"), create("b"), create("c")

	// The list shifts in both directions while the question for b is open.
	plan := planOf(t, d, verb.Delete, "b")
	carryOut(t, d, planOf(t, d, verb.Delete, "a"))
	aa, aaa := create("aa"), create("aaa")
	carryOut(t, d, plan)
	if there(a) || there(b) || !there(c) || !there(aa) || !there(aaa) {
		t.Errorf("left: a %v, b %v, c %v, aa %v, aaa %v", there(a), there(b), there(c), there(aa), there(aaa))
	}

	// The second press does nothing.
	if _, err := d.Do(t.Context(), wire.Do{Plan: plan.ID}, nil); problem.KindOf(err) != problem.Refused {
		t.Errorf("confirmed twice: %v", err)
	}

	// Deleted and made again under the same name meanwhile: the one that was named no longer exists.
	plan = planOf(t, d, verb.Delete, "c")
	carryOut(t, d, planOf(t, d, verb.Delete, "c"))
	again := create("c")
	_, err := d.Do(t.Context(), wire.Do{Plan: plan.ID}, nil)
	if problem.KindOf(err) != problem.NotFound || !strings.Contains(err.Error(), "no longer exists") || !there(again) {
		t.Errorf("made again under the same name: %v, still there %v", err, there(again))
	}

	// Two fronts that confirm the same plan at the same moment: done once.
	plan = planOf(t, d, verb.Delete, "aa")
	errs := make([]error, 4)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { _, errs[i] = d.Do(t.Context(), wire.Do{Plan: plan.ID}, nil) })
	}
	wg.Wait()
	done := 0
	for _, err := range errs {
		if err == nil {
			done++
		} else if k := problem.KindOf(err); k != problem.Refused {
			t.Errorf("another confirmation: %v", err)
		}
	}
	if done != 1 || there(aa) || !there(aaa) {
		t.Errorf("done %d times, aa %v, aaa %v", done, there(aa), there(aaa))
	}

	// The plan has changed meanwhile: nothing is removed, and the new plan is there.
	plan = planOf(t, d, verb.Delete, "target")
	id := vm.ID(plan.Subject.ID)
	if err := os.WriteFile(p.Root.Workspace(string(id)).Incidents()+".new", []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	last, err := d.Do(t.Context(), wire.Do{Plan: plan.ID}, nil)
	if problem.KindOf(err) != problem.Refused || last.NewPlan == nil || len(last.NewPlan.Losses) != len(plan.Losses)+1 || !there(id) {
		t.Fatalf("out of date: %v, new plan %v, still there %v", err, last.NewPlan, there(id))
	}
	carryOut(t, d, *last.NewPlan)
	if there(id) {
		t.Error("the new plan was not carried out")
	}
}

// Field case F75: links are removed, never followed, and a workspace that is itself a link is refused.
func TestLinksAreNotFollowed(t *testing.T) {
	p, ws, _ := furnished(t)
	keep := filepath.Join(p.Dir, "keep")
	for _, f := range []string{"file", "deep/file"} {
		path := filepath.Join(keep, f)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, make([]byte, 1<<20), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dir := string(p.Root.Workspace(string(ws.ID)))
	for _, at := range []string{"link", "checkpoints/2026-11-28T09-00-00Z/link", "traces/link", "ssh/link"} {
		if err := os.Symlink(keep, filepath.Join(dir, at)); err != nil {
			t.Fatal(err)
		}
	}
	// A link in the place of a thing that a verb removes: the link goes.
	if err := os.Remove(filepath.Join(dir, "home.img")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(keep, "file"), filepath.Join(dir, "home.img")); err != nil {
		t.Fatal(err)
	}
	d := p.Start(t, nil)
	for _, v := range []verb.Verb{verb.EraseHome, verb.Delete} {
		plan := planOf(t, d, v, "target")
		if plan.Own() >= 1<<20 {
			t.Errorf("%s counts %d bytes: what links point to does not come back", v, plan.Own())
		}
		carryOut(t, d, plan)
	}
	if _, err := os.Lstat(dir); err == nil {
		t.Error("the workspace is still there")
	}
	for _, f := range []string{"file", "deep/file"} {
		if fi, err := os.Stat(filepath.Join(keep, f)); err != nil || fi.Size() != 1<<20 {
			t.Errorf("what the links point to: %v", err)
		}
	}

	// The workspace itself is a link to something that looks like one.
	other, err := p.AddWorkspace(store.NewWorkspace{Name: "elsewhere"})
	if err != nil {
		t.Fatal(err)
	}
	from, to := string(p.Root.Workspace(string(other.ID))), filepath.Join(p.Dir, "elsewhere")
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(to, from); err != nil {
		t.Fatal(err)
	}
	for _, v := range []verb.Verb{verb.Reset, verb.EraseHome, verb.Delete} {
		plan, err := d.Plan(t.Context(), wire.PlanRequest{Verb: v, Subject: string(other.ID)})
		if err == nil {
			_, err = d.Do(t.Context(), wire.Do{Plan: plan.ID}, nil)
		}
		if err == nil || !strings.Contains(err.Error(), "links are not followed") {
			t.Errorf("%s of a workspace that is a link: %v", v, err)
		}
	}
	if _, err := os.Stat(filepath.Join(to, "workspace.json")); err != nil {
		t.Errorf("what the workspace's link points to: %v", err)
	}
}
