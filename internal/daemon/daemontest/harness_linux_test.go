package daemontest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/verb"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/store"
)

// A harness that finds nothing must be one that could have.
func TestClassify(t *testing.T) {
	before := Tree{"disk.img": "d", "home.img": "h", "keep": "k"}
	after := Tree{"keep": "k"}
	for name, c := range map[string]struct {
		found  Tree
		things bool
		want   state
	}{
		"before":                   {before, false, isBefore},
		"after":                    {after, false, isAfter},
		"half":                     {Tree{"home.img": "h", "keep": "k"}, false, isNeither},
		"half, and that is enough": {Tree{"home.img": "h", "keep": "k"}, true, isBetween},
		"cut in two":               {Tree{"home.img": "x", "keep": "k"}, false, isNeither},
		"another thing gone":       {Tree{}, false, isNeither},
		"another thing changed":    {Tree{"keep": "x"}, true, isNeither},
		"something has come":       {Tree{"keep": "k", "new": "n"}, true, isNeither},
	} {
		got, wrong := classify(before, after, c.found, c.things)
		if got != c.want || (got == isNeither) != (len(wrong) > 0) {
			t.Errorf("%s: %v, %q", name, got, wrong)
		}
	}
	if got, wrong := classify(after, after, after, false); got != isAfter || wrong != nil {
		t.Errorf("nothing changes: %v, %q", got, wrong)
	}
}

func TestHarnessSeesLosses(t *testing.T) {
	p := TempPlace(t)
	if err := p.furnish(); err != nil {
		t.Fatal(err)
	}
	ws, err := p.AddWorkspace(store.NewWorkspace{Name: target})
	if err != nil {
		t.Fatal(err)
	}
	pr, err := p.Spawn("")
	if err != nil {
		t.Fatal(err)
	}
	defer pr.Kill()
	clean, losses, err := p.look(t.Context(), pr)
	if err != nil || losses != nil {
		t.Fatalf("nothing is wrong yet: %q, %v", losses, err)
	}
	dir := p.Root.Workspace(string(ws.ID))
	index, err := os.ReadFile(p.Root.MACs())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, path, content, want string }{
		{"temporary file", filepath.Join(string(dir), ".home.img.tmp-1-0"), "", "left: "},
		{"half-made workspace", filepath.Join(p.Root.Workspaces(), ".new-"+string(vm.NewID()), "lock"), "", "left: "},
		{"stranger's directory", filepath.Join(p.Root.Workspaces(), "not-an-id", "file"), "", "not in the list"},
		{"workspace without settings", filepath.Join(string(p.Root.Workspace(string(vm.NewID()))), "disk.img"), "", "is broken"},
		{"disk without a format", dir.Disk(), "x", "settings know nothing of"},
		{"journal", filepath.Join(p.Root.Trash(), "0123", "journal.json"), "{}", "in the trash"},
		{"machine's directory", filepath.Join(string(p.Runtime.Machine(string(ws.ID))), "qmp"), "", "left of a machine"},
		{"address of nobody", p.Root.MACs(), `{"` + string(vm.NewID()) + `":"02:00:00:00:00:01"}`, "index of MAC addresses"},
		{"failure of the last start", dir.State(), `{"version":1,"failure":{"step":"disk","error":"x"}}`, "is broken"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := os.MkdirAll(filepath.Dir(c.path), layout.DirMode); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(c.path, []byte(c.content), layout.FileMode); err != nil {
				t.Fatal(err)
			}
			_, losses, err := p.look(t.Context(), pr)
			if err != nil || !strings.Contains(strings.Join(losses, "\n"), c.want) {
				t.Errorf("losses %q, %v: none says %q", losses, err, c.want)
			}
			if c.path == p.Root.MACs() {
				err = os.WriteFile(c.path, index, layout.FileMode)
			} else {
				for at := c.path; at != string(dir) && at != p.Root.Workspaces() && at != p.Root.Trash() && at != p.Runtime.Machines(); at = filepath.Dir(at) {
					if err = os.RemoveAll(at); err != nil {
						break
					}
				}
			}
			if err != nil {
				t.Fatal(err)
			}
			if again, losses, err := p.look(t.Context(), pr); err != nil || losses != nil || len(differences(clean, again)) > 0 {
				t.Fatalf("put right again: %q, %v, %v", losses, err, differences(clean, again))
			}
		})
	}
}

// An operation that is not cut where it says, or does nothing, is no operation.
func TestHarnessSeesIdleOperations(t *testing.T) {
	_, err := Inject(Operation{Name: "idle", Prepare: nothing, Do: plan(verb.Reset, bystander+"s")}, 1, 1)
	if err == nil || !strings.Contains(err.Error(), "state after") {
		t.Errorf("an operation that fails: %v", err)
	}
}

// The trash may be lost, with a removal that was cut short in it: only what was being removed is, and everything works.
func TestTrashIsLost(t *testing.T) {
	p := TempPlace(t)
	if err := p.furnish(); err != nil {
		t.Fatal(err)
	}
	if err := crashed(p); err != nil {
		t.Fatal(err)
	}
	before, err := ReadTree(p.Root.Workspaces())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(p.Root.Trash()); err != nil {
		t.Fatal(err)
	}
	pr, err := p.Spawn("")
	if err != nil {
		t.Fatal(err)
	}
	defer pr.Kill()
	found, losses, err := p.look(t.Context(), pr)
	if err != nil || losses != nil {
		t.Errorf("losses %q, %v", losses, err)
	}
	if found["list: "+target] != string(vm.Off) || found["list: "+bystander] != string(vm.Off) {
		t.Errorf("the list: %v", found)
	}
	after, err := ReadTree(p.Root.Workspaces())
	if err != nil {
		t.Fatal(err)
	}
	kept := 0
	for path, what := range before {
		id, _, _ := strings.Cut(path, "/")
		if _, err := pr.Workspace(t.Context(), id); err != nil || strings.Contains(path, ".tmp-") {
			continue // what was to be swept
		}
		if kept++; after[path] != what {
			t.Errorf("%s is %q, was %q", path, after[path], what)
		}
	}
	if kept < 40 {
		t.Errorf("only %d paths were compared", kept)
	}
	if losses, err := p.useUp(t.Context(), pr); err != nil || losses != nil {
		t.Errorf("afterwards: %q, %v", losses, err)
	}
}
