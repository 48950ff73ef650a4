package daemon_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/daemon/daemontest"
	"bromure.io/tui/internal/verb"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/store"
)

// With everything gone that the daemon keeps for itself, the list, the states and the addresses come from the
// directories of the workspaces alone; what runs is adopted.
func TestRebuiltFromDirectories(t *testing.T) {
	p, marked, _ := furnished(t)
	d := p.Start(t, nil)
	for _, name := range []string{"runs", "ran", "new"} {
		if _, err := d.Create(t.Context(), wire.Create{Name: name, MemoryMiB: vm.MinMemoryMiB, HomeMiB: vm.MinHomeMiB, Notes: "notes of " + name}); err != nil {
			t.Fatal(err)
		}
	}
	for _, do := range []wire.Do{{Verb: "start", Workspace: "runs"}, {Verb: "start", Workspace: "ran"}, {Verb: "stop", Workspace: "ran"}} {
		if _, err := d.Do(t.Context(), do, nil); err != nil {
			t.Fatal(err)
		}
	}
	failed, err := p.AddWorkspace(store.NewWorkspace{Name: "failed"})
	if err != nil {
		t.Fatal(err)
	}
	if err := (&store.Store{Root: p.Root}).ClearMachine(failed.ID, &vm.Failure{Step: "disk", Err: "no room", At: daemontest.Epoch()}); err != nil {
		t.Fatal(err)
	}
	before := list(t, d)
	addresses := macs(t, p)
	d.Stop()

	entries, err := os.ReadDir(string(p.Root))
	if err != nil {
		t.Fatal(err)
	}
	var removed []string
	for _, e := range entries {
		if e.Name() != "workspaces" && e.Name() != "images" {
			removed = append(removed, e.Name())
			if err := os.RemoveAll(filepath.Join(string(p.Root), e.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(removed) < 5 { // daemon.lock, endpoint.json, macs.json, logs, trash
		t.Errorf("the daemon kept only %q", removed)
	}
	if err := os.Remove(p.Root.WorkspacesLock()); err != nil {
		t.Fatal(err)
	}

	next := p.Start(t, d.Fake)
	for snap, err := range next.Watch(t.Context()) { // the adopted guest answers when it has been dialled
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(snap.Workspaces, func(w wire.Workspace) bool { return w.State == vm.Running }) {
			break
		}
	}
	after := list(t, next)
	for name, w := range before {
		if got := after[name]; got != w {
			t.Errorf("%s is %+v, was %+v", name, got, w)
		}
	}
	if len(after) != len(before) || before["runs"].State != vm.Running || before["failed"].State != vm.Broken || !before[string(marked.Name)].Marked {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if got := macs(t, p); !maps.Equal(got, addresses) {
		t.Errorf("addresses are %v, were %v", got, addresses)
	}
	if _, err := next.Do(t.Context(), wire.Do{Verb: "stop", Workspace: "runs"}, nil); err != nil {
		t.Error(err)
	}
	for name := range after {
		carryOut(t, next, planOf(t, next, verb.Delete, name))
	}
	if got := macs(t, p); len(got) != 0 {
		t.Errorf("addresses when everything is deleted: %v", got)
	}
}

type row struct {
	ID     vm.ID
	MAC    vm.MAC
	State  vm.State
	Notes  string
	Format vm.DiskFormat
	Failed string
	Marked bool
}

func list(t *testing.T, d *daemontest.Daemon) map[string]row {
	t.Helper()
	snap, err := d.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]row{}
	for _, w := range snap.Workspaces {
		r := row{ID: w.ID, MAC: w.MAC, State: w.State, Notes: w.Notes, Format: w.DiskFormat, Marked: w.Compromise != nil}
		if w.Failure != nil {
			r.Failed = w.Failure.Step
		}
		rows[string(w.Name)] = r
	}
	return rows
}

func macs(t *testing.T, p *daemontest.Place) map[vm.ID]vm.MAC {
	t.Helper()
	data, err := os.ReadFile(p.Root.MACs())
	if err != nil {
		t.Fatal(err)
	}
	idx := map[vm.ID]vm.MAC{}
	if err := json.Unmarshal(data, &idx); err != nil {
		t.Fatal(err)
	}
	return idx
}

// An image that a clone was cut short of is needed by a workspace that is to start from it, not by a disk.
func TestImageOfACloneThatWasCutShort(t *testing.T) {
	p := daemontest.TempPlace(t)
	ref, err := p.AddImage("1", daemontest.Epoch())
	if err != nil {
		t.Fatal(err)
	}
	ws, err := p.AddWorkspace(store.NewWorkspace{Name: "w"})
	if err != nil {
		t.Fatal(err)
	}
	s := &store.Store{Root: p.Root}
	if _, err := s.Update(ws.ID, func(w *vm.Workspace) error { // what is written just before the disk gets its name
		w.Image, w.DiskFormat, w.CloneKind = string(ref), vm.QCOW2, "overlay"
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	d := p.Start(t, nil)
	_, err = d.Plan(t.Context(), wire.PlanRequest{Verb: verb.ImageRm, Subject: string(ref)})
	if err == nil || !strings.Contains(err.Error(), `"w" is to start from it`) {
		t.Errorf("the image is in use by: %v", err)
	}
	if _, err := d.Do(t.Context(), wire.Do{Verb: "start", Workspace: "w"}, nil); err != nil {
		t.Fatal(err)
	}
	_, err = d.Plan(t.Context(), wire.PlanRequest{Verb: verb.ImageRm, Subject: string(ref)})
	if err == nil || !strings.Contains(err.Error(), "is an overlay on it") {
		t.Errorf("the image is in use by: %v", err)
	}
}
