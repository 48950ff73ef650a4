package daemon_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/daemon/daemontest"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/internal/verb"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/store"
)

// furnished is a place with an image, a workspace that is not to be touched, and one with things of every kind, whose files'
// kinds are returned.
func furnished(t *testing.T) (p *daemontest.Place, ws vm.Workspace, kinds map[string]string) {
	t.Helper()
	p = daemontest.TempPlace(t)
	if _, err := p.AddImage("1", daemontest.Epoch()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"other", "target"} {
		var err error
		if ws, err = p.AddWorkspace(store.NewWorkspace{Name: name}); err == nil {
			kinds, err = p.Fill(ws)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return p, ws, kinds
}

func tree(t *testing.T, p *daemontest.Place) daemontest.Tree {
	t.Helper()
	tr, err := daemontest.ReadTree(string(p.Root))
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func planOf(t *testing.T, d *daemontest.Daemon, v verb.Verb, subject string) verb.Plan {
	t.Helper()
	plan, err := d.Plan(t.Context(), wire.PlanRequest{Verb: v, Subject: subject})
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func carryOut(t *testing.T, d *daemontest.Daemon, plan verb.Plan) {
	t.Helper()
	if _, err := d.Do(t.Context(), wire.Do{Plan: plan.ID}, nil); err != nil {
		t.Fatal(err)
	}
}

func isDir(what string) bool { return strings.HasPrefix(what, "d") }

// The removed set equals the named set, over a workspace with a thing of every kind that there is. A kind that is added to vm.Kinds and
// not to daemontest.Fill fails in Fill; one that is in neither is unknown, see below.
func TestRemovedSetIsNamedSet(t *testing.T) {
	for _, v := range []verb.Verb{verb.Reset, verb.EraseHome, verb.Delete} {
		t.Run(string(v), func(t *testing.T) {
			p, ws, kinds := furnished(t)
			d := p.Start(t, nil)
			before := tree(t, p)
			plan := planOf(t, d, v, "target")
			if now := tree(t, p); !slices.Equal(changed(before, now), nil) {
				t.Fatalf("planning changed %q", changed(before, now))
			}
			carryOut(t, d, plan)
			after := tree(t, p)

			home := "workspaces/" + string(ws.ID) + "/"
			goes := func(kind string) bool {
				r := vm.RowOf(kind)
				return v == verb.Delete || v == verb.Reset && r.Reset || v == verb.EraseHome && r.Erase
			}
			named := func(rel string) bool {
				return slices.ContainsFunc(plan.Losses, func(l verb.Item) bool {
					return l.Path != "" && (rel == l.Path || strings.HasPrefix(rel, l.Path+"/"))
				})
			}
			for rel, kind := range kinds {
				if named(rel) != goes(kind) {
					t.Errorf("%s, a %s: named %v", rel, kind, named(rel))
				}
			}
			for path, what := range before {
				rel, inside := strings.CutPrefix(path, home)
				got, there := after[path]
				switch {
				case isDir(what): // that of the workspace itself is named by the title
					if gone := !there; inside && gone != (v == verb.Delete || named(rel)) {
						t.Errorf("%s: gone %v", path, gone)
					}
				case inside && there == named(rel):
					t.Errorf("%s: named %v, still there %v", path, named(rel), there)
				case inside && there && got != what && !rewritten(v, rel), !inside && got != what && !rewritten(v, path):
					t.Errorf("%s stays and has changed: %q, was %q", path, got, what)
				}
			}
			for path := range after {
				if _, ok := before[path]; !ok {
					t.Errorf("%s has come", path)
				}
			}

			// What is no file: the reservation of the MAC address.
			addressNamed := slices.ContainsFunc(plan.Losses, func(l verb.Item) bool { return l.Kind == vm.KindMAC && strings.Contains(l.What, string(ws.MAC)) })
			macs, err := os.ReadFile(p.Root.MACs())
			if err != nil {
				t.Fatal(err)
			}
			if held := strings.Contains(string(macs), string(ws.MAC)); addressNamed == held || addressNamed != (v == verb.Delete) {
				t.Errorf("address named %v, still reserved %v", addressNamed, held)
			}
			if n := strings.Count(string(macs), "02:"); n != 1 && v == verb.Delete {
				t.Errorf("%d addresses are reserved: %s", n, macs)
			}
		})
	}
}

// rewritten says whether a file stays and may have other content afterwards.
func rewritten(v verb.Verb, path string) bool {
	switch path {
	case "logs/daemon.log":
		return true
	case "workspace.json": // it says which disk there is
		return v == verb.Reset
	case "macs.json":
		return v == verb.Delete
	}
	return false
}

func changed(a, b daemontest.Tree) (paths []string) {
	for path, what := range a {
		if b[path] != what && path != "logs/daemon.log" {
			paths = append(paths, path)
		}
	}
	for path := range b {
		if _, ok := a[path]; !ok {
			paths = append(paths, path)
		}
	}
	return paths
}

// The names of removed kinds are those of the table, so that a verb cannot quietly stop to remove something.
func TestPlansNameEveryKindOfTheTable(t *testing.T) {
	p, _, _ := furnished(t)
	d := p.Start(t, nil)
	for v, goes := range map[verb.Verb]func(vm.KindRow) bool{
		verb.Reset:     func(r vm.KindRow) bool { return r.Reset },
		verb.EraseHome: func(r vm.KindRow) bool { return r.Erase },
		verb.Delete:    func(vm.KindRow) bool { return true },
	} {
		plan := planOf(t, d, v, "target")
		for _, r := range vm.Kinds {
			has := slices.ContainsFunc(plan.Losses, func(l verb.Item) bool { return l.Kind == r.Kind })
			if has != goes(r) {
				t.Errorf("%s names a thing of kind %s: %v", v, r.Kind, has)
			}
		}
	}
}

// unplanned lists what a workspace has that no row of vm.Kinds explains.
func unplanned(plan verb.Plan) (paths []string) {
	for _, l := range plan.Losses {
		if l.Unknown {
			paths = append(paths, l.Path)
		}
	}
	return paths
}

// A file of a kind that nobody planned for trips the check on the day on which the program begins to write it, and is named
// and removed by a deletion all the same.
func TestNewKindOfFile(t *testing.T) {
	p := daemontest.TempPlace(t)
	if _, err := p.AddImage("1", daemontest.Epoch()); err != nil {
		t.Fatal(err)
	}
	d := p.Start(t, nil)
	w, err := d.Create(t.Context(), wire.Create{Name: "w", MemoryMiB: vm.MinMemoryMiB, HomeMiB: vm.MinHomeMiB})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []verb.Verb{verb.Start, verb.Reboot, verb.Stop, verb.Start} {
		if _, err := d.Do(t.Context(), wire.Do{Verb: string(v), Workspace: "w"}, nil); err != nil {
			t.Fatal(err)
		}
		if got := unplanned(planAnyway(t, p, w)); got != nil {
			t.Errorf("after %s the program has files in a workspace that no row of vm.Kinds explains: %q", v, got)
		}
	}
	if _, err := d.Do(t.Context(), wire.Do{Verb: string(verb.Kill), Workspace: "w"}, nil); err != nil {
		t.Fatal(err)
	}

	dir := string(p.Root.Workspace(string(w.ID)))
	for _, novelty := range []string{"novelty.bin", "checkpoints", filepath.Join("novel", "deep")} {
		path := filepath.Join(dir, novelty)
		if err := os.MkdirAll(filepath.Dir(path), layout.DirMode); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("x"), layout.FileMode); err != nil {
			t.Fatal(err)
		}
	}
	plan := planOf(t, d, verb.Delete, "w")
	got := unplanned(plan)
	slices.Sort(got)
	if want := []string{"checkpoints", "novel", "novelty.bin"}; !slices.Equal(got, want) { // a file in the place of a directory is unknown, too
		t.Errorf("unknown things are %q, want %q", got, want)
	}
	words := fmt.Sprint(plan.Words(daemontest.Epoch()))
	if !strings.Contains(words, "a file that this program did not make: novelty.bin") {
		t.Errorf("the plan does not say that a file is unknown: %s", words)
	}
	for _, v := range []verb.Verb{verb.Reset, verb.EraseHome} {
		if got := unplanned(planOf(t, d, v, "w")); got != nil {
			t.Errorf("%s would remove what nobody planned for: %q", v, got)
		}
	}
	carryOut(t, d, plan)
	if _, err := os.Lstat(dir); err == nil {
		t.Error("the workspace is still there")
	}
}

// planAnyway is a plan of deletion that does not ask whether the workspace runs.
func planAnyway(t *testing.T, p *daemontest.Place, w wire.Workspace) verb.Plan {
	t.Helper()
	inv, err := (&store.Store{Root: p.Root}).Inventory(w.ID)
	if err != nil {
		t.Fatal(err)
	}
	return vm.PlanDelete(w.Workspace, inv)
}

// Images: what is named goes, what a workspace needs is refused.
func TestImagesGoByPlan(t *testing.T) {
	p, _, _ := furnished(t)
	if _, err := p.AddImage("0", daemontest.Epoch().AddDate(0, 0, -1)); err != nil {
		t.Fatal(err)
	}
	newest, err := p.AddImage("2", daemontest.Epoch().AddDate(0, 0, 1))
	if err != nil {
		t.Fatal(err)
	}
	d := p.Start(t, nil)
	for _, v := range []verb.Verb{verb.ImagePrune, verb.ImageRm} {
		before := tree(t, p)
		subject := ""
		if v == verb.ImageRm {
			subject = string(newest)
		}
		plan := planOf(t, d, v, subject)
		if len(plan.Losses) != 1 {
			t.Fatalf("%s names %d images", v, len(plan.Losses)) // "1" is in use
		}
		carryOut(t, d, plan)
		after := tree(t, p)
		for path := range before {
			_, there := after[path]
			if named := strings.HasPrefix(path+"/", "images/"+plan.Losses[0].Path+"/"); there == named {
				t.Errorf("%s: %s: named %v, still there %v", v, path, named, there)
			}
		}
	}
	if _, err := d.Plan(t.Context(), wire.PlanRequest{Verb: verb.ImageRm, Subject: string(newest)}); problem.KindOf(err) != problem.NotFound {
		t.Errorf("an image that is gone: %v", err)
	}
}

// Uninstall: all of it, and nothing that somebody else has put there.
func TestUninstallRemovesWhatItNames(t *testing.T) {
	p, _, _ := furnished(t)
	mine := filepath.Join(string(p.Root), "mine.txt")
	if err := os.WriteFile(mine, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := p.Start(t, nil)
	plan := planOf(t, d, verb.Uninstall, "")
	words := fmt.Sprint(plan.Words(daemontest.Epoch()))
	for _, want := range []string{`"other", "target"`, "mine.txt", "There is no way back"} {
		if !strings.Contains(words, want) {
			t.Errorf("the plan does not say %s: %s", want, words)
		}
	}
	carryOut(t, d, plan)
	d.Stop()
	if left := tree(t, p); len(left) != 1 || left["mine.txt"] == "" {
		t.Errorf("left: %v", left)
	}
}
