package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func newStore(t *testing.T) *Store {
	t.Helper()
	s, err := Open(layout.Root(filepath.Join(t.TempDir(), "root")))
	if err != nil {
		t.Fatal(err)
	}
	s.Clock = func() time.Time { return noon }
	return s
}

func create(t *testing.T, s *Store, name string) vm.Workspace {
	t.Helper()
	ws, err := s.Create(t.Context(), NewWorkspace{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return ws
}

func list(t *testing.T, s *Store) []Entry {
	t.Helper()
	entries, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

func TestCreate(t *testing.T) {
	s := newStore(t)
	ws, err := s.Create(t.Context(), NewWorkspace{
		Name: "Zwölf 🦦 Boxkämpfer", CPUs: 3, MemoryMiB: 2048, HomeMiB: 100, Image: "debian-12", Color: "teal", Notes: "two\nlines",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := vm.Workspace{
		Version: 1, ID: ws.ID, Name: "Zwölf 🦦 Boxkämpfer", MAC: ws.MAC, CPUs: 3, MemoryMiB: 2048, HomeMiB: 100,
		Created: noon, Image: "debian-12", Color: "teal", Notes: "two\nlines",
	}
	if a, b := show(ws), show(want); a != b {
		t.Errorf("Create = %s, want %s", a, b)
	}
	got, err := s.Load(ws.ID)
	if a, b := show(got), show(want); err != nil || a != b {
		t.Errorf("Load = %s, %v, want %s", a, err, b)
	}
	// Everything that is there, with its mode.
	found := map[string]fs.FileMode{}
	root := string(s.Root)
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		rel, _ := filepath.Rel(root, path)
		found[strings.ReplaceAll(rel, string(ws.ID), "ID")] = fi.Mode()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	const d, f = fs.ModeDir | 0o700, fs.FileMode(0o600)
	wantFiles := map[string]fs.FileMode{
		".": d, "workspaces": d, "workspaces/.lock": f, "macs.json": f,
		"workspaces/ID": d, "workspaces/ID/logs": d, "workspaces/ID/lock": f, "workspaces/ID/workspace.json": f,
	}
	if fmt.Sprint(found) != fmt.Sprint(wantFiles) {
		t.Errorf("on disk:\n%v, want\n%v", found, wantFiles)
	}
}

func TestCreateDefaults(t *testing.T) {
	s := newStore(t)
	ws := create(t, s, "plain")
	if ws.CPUs != vm.DefaultCPUs || ws.MemoryMiB != vm.DefaultMemoryMiB || ws.HomeMiB != vm.DefaultHomeMiB || ws.Image != "" {
		t.Errorf("defaults: %s", show(ws))
	}
	seen := map[string]bool{}
	for range 30 {
		ws := create(t, s, "")
		if _, err := vm.ParseName(string(ws.Name)); err != nil || seen[ws.Name.Key()] {
			t.Errorf("made up the name %q: %v", ws.Name, err)
		}
		seen[ws.Name.Key()] = true
	}
}

func TestFriendlyNamesDoNotRunOut(t *testing.T) {
	var entries []Entry
	for _, a := range adjectives() {
		for _, n := range nouns() {
			entries = append(entries, Entry{Workspace: vm.Workspace{Name: vm.Name(a + "-" + n)}})
		}
	}
	name := friendlyName(entries)
	if _, err := vm.ParseName(string(name)); err != nil || strings.Count(string(name), "-") != 2 {
		t.Errorf("with every pair taken: %q, %v", name, err)
	}
}

// The rule for names is vm.ParseName's, and it is asked here (F59, F74).
func TestCreateRefusesNames(t *testing.T) {
	s := newStore(t)
	canary := filepath.Join(filepath.Dir(string(s.Root)), "canary")
	if err := os.Mkdir(canary, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"../canary", canary, ".", "..", "a/b", "a\x00b", "-rf", strings.Repeat("a", 300), " a", "a ",
		"web\x1b[2J\x1b]0;pwned\x07\r\x9b31mX", "a\u009bb", "a\u202eb", "\ufeff", "\u200b",
		strings.Repeat("0", 32),
	} {
		_, err := s.Create(t.Context(), NewWorkspace{Name: name})
		if problem.KindOf(err) != problem.Usage {
			t.Errorf("Create(%q): %v (%s)", name, err, problem.KindOf(err))
			continue
		}
		if strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }) {
			t.Errorf("the message for %q has control characters: %q", name, err)
		}
	}
	for name, n := range map[string]NewWorkspace{
		"cpus":   {CPUs: -1},
		"memory": {MemoryMiB: 1},
		"home":   {HomeMiB: 1 << 40},
		"image":  {Image: "../canary"},
		"color":  {Color: "\x1b[31m"},
		"notes":  {Notes: strings.Repeat("n", 1<<20)},
	} {
		n.Name = name
		if _, err := s.Create(t.Context(), n); problem.KindOf(err) != problem.Usage {
			t.Errorf("Create with a bad %s: %v", name, err)
		}
	}
	if got := list(t, s); len(got) != 0 {
		t.Errorf("%d workspaces were made", len(got))
	}
	left, err := os.ReadDir(s.Root.Workspaces())
	if err != nil || len(left) > 1 || len(left) == 1 && left[0].Name() != ".lock" {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if left, err := os.ReadDir(canary); err != nil || len(left) != 0 {
		t.Errorf("the canary: %v, %v", left, err)
	}
}

func TestNamesAreUnique(t *testing.T) {
	s := newStore(t)
	create(t, s, "Caf\u00e9")
	for _, name := range []string{"Caf\u00e9", "Cafe\u0301", "CAF\u00c9", "cafe\u0301"} {
		_, err := s.Create(t.Context(), NewWorkspace{Name: name})
		if problem.KindOf(err) != problem.Refused || !strings.Contains(err.Error(), "taken") {
			t.Errorf("Create(%+q): %v", name, err)
		}
	}
	other := create(t, s, "Cafe")
	if _, err := s.Update(other.ID, func(ws *vm.Workspace) error { ws.Name = "cafe\u0301"; return nil }); problem.KindOf(err) != problem.Refused {
		t.Errorf("renaming to a taken name: %v", err)
	}
	if ws, err := s.Update(other.ID, func(ws *vm.Workspace) error { ws.Name = "CAFE"; return nil }); err != nil || ws.Name != "CAFE" {
		t.Errorf("renaming to the same name in another case: %v, %v", ws.Name, err)
	}
}

func TestUpdate(t *testing.T) {
	s := newStore(t)
	ws := create(t, s, "one")
	got, err := s.Update(ws.ID, func(w *vm.Workspace) error { w.Name, w.MemoryMiB = "two", 512; return nil })
	if err != nil || got.Name != "two" || got.MemoryMiB != 512 {
		t.Fatalf("Update = %s, %v", show(got), err)
	}
	if again, err := s.Load(ws.ID); err != nil || show(again) != show(got) {
		t.Errorf("Load = %s, %v", show(again), err)
	}
	boom := errors.New("boom")
	for name, change := range map[string]func(w *vm.Workspace) error{
		"error":   func(w *vm.Workspace) error { w.Notes = "x"; return boom },
		"id":      func(w *vm.Workspace) error { w.ID = vm.NewID(); return nil },
		"mac":     func(w *vm.Workspace) error { w.MAC = vm.NewMAC(); return nil },
		"version": func(w *vm.Workspace) error { w.Version++; return nil },
		"created": func(w *vm.Workspace) error { w.Created = w.Created.Add(1); return nil },
		"name":    func(w *vm.Workspace) error { w.Name = "../canary"; return nil },
		"cpus":    func(w *vm.Workspace) error { w.CPUs = 0; return nil },
		"image":   func(w *vm.Workspace) error { w.Image = "../x"; return nil },
		"format":  func(w *vm.Workspace) error { w.DiskFormat = "vmdk"; return nil },
	} {
		if _, err := s.Update(ws.ID, change); err == nil || name == "error" && !errors.Is(err, boom) {
			t.Errorf("Update of %s: %v", name, err)
		}
	}
	if again, err := s.Load(ws.ID); err != nil || show(again) != show(got) {
		t.Errorf("after refused updates: %s, %v", show(again), err)
	}
	if _, err := s.Update(vm.NewID(), func(*vm.Workspace) error { return nil }); problem.KindOf(err) != problem.NotFound {
		t.Errorf("Update of nothing: %v", err)
	}
}

// An ID is parsed at every use, whoever it comes from (F74).
func TestIDsAreParsedEverywhere(t *testing.T) {
	s := newStore(t)
	canary := filepath.Join(string(s.Root), "canary")
	if err := os.Mkdir(canary, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, id := range []vm.ID{"", ".", "..", "../canary", vm.ID(canary), "con", "-rf", "a\x00b", vm.ID(strings.Repeat("A", 32))} {
		for verb, err := range map[string]error{
			"Load":         second(s.Load(id)),
			"Update":       second(s.Update(id, func(*vm.Workspace) error { return nil })),
			"Lock":         second(s.Lock(id)),
			"Dir":          second(s.Dir(id)),
			"MachineState": second(s.MachineState(id)),
			"SetMachine":   s.SetMachine(id, vm.Record{}, vm.Spec{}),
			"ClearMachine": s.ClearMachine(id, &vm.Failure{}),
			"Compromise":   second(s.Compromise(id)),
			"Release":      s.Release(t.Context(), id),
		} {
			if problem.KindOf(err) != problem.Usage {
				t.Errorf("%s(%q): %v", verb, id, err)
			}
		}
		if got, err := s.Resolve(string(id)); err == nil {
			t.Errorf("Resolve(%q) = %q", id, got)
		}
	}
	if left, err := os.ReadDir(canary); err != nil || len(left) != 0 {
		t.Errorf("the canary: %v, %v", left, err)
	}
}

func TestNoDirectory(t *testing.T) {
	s := &Store{Root: layout.Root(filepath.Join(t.TempDir(), "never", "made"))}
	if got := list(t, s); len(got) != 0 {
		t.Errorf("List = %v", got)
	}
	id := vm.NewID()
	for verb, err := range map[string]error{
		"Load":    second(s.Load(id)),
		"Update":  second(s.Update(id, func(*vm.Workspace) error { return nil })),
		"Lock":    second(s.Lock(id)),
		"Resolve": second(s.Resolve("x")),
	} {
		if problem.KindOf(err) != problem.NotFound {
			t.Errorf("%s: %v", verb, err)
		}
	}
	if err := s.Release(t.Context(), id); err != nil {
		t.Errorf("Release: %v", err)
	}
	if _, err := os.Stat(string(s.Root)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("reading made the root: %v", err)
	}
	if ws := create(t, s, "first"); ws.Name != "first" {
		t.Error("no workspace was made")
	}
}

func TestOpenRefusesForeignDirectories(t *testing.T) {
	root := layout.Root(t.TempDir())
	if err := os.Mkdir(root.Workspaces(), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(root); problem.HintOf(err) == "" {
		t.Errorf("Open of a directory that others may enter: %v", err)
	}
	if err := os.Remove(root.Workspaces()); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(t.TempDir(), root.Workspaces()); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(root); err == nil {
		t.Error("Open went through a symbolic link")
	}
}

func TestLockIsExclusive(t *testing.T) {
	s := newStore(t)
	ws := create(t, s, "one")
	l, err := s.Lock(ws.ID)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Lock(ws.ID)
	if !errors.Is(err, vm.ErrLocked) || problem.KindOf(err) != problem.Refused || problem.HintOf(err) == "" {
		t.Errorf("a second lock: %v", err)
	}
	if _, err := s.Update(ws.ID, func(w *vm.Workspace) error { w.Notes = "while it runs"; return nil }); err != nil {
		t.Errorf("Update while the machine runs: %v", err)
	}
	l.Unlock()
	l, err = s.Lock(ws.ID)
	if err != nil {
		t.Fatalf("after Unlock: %v", err)
	}
	l.Unlock()
}

func TestLockRefusesLinks(t *testing.T) {
	s := newStore(t)
	ws := create(t, s, "one")
	lock := s.Root.Workspace(string(ws.ID)).Lock()
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	if err := errors.Join(os.Remove(lock), os.Symlink(elsewhere, lock)); err != nil {
		t.Fatal(err)
	}
	if l, err := s.Lock(ws.ID); err == nil {
		l.Unlock()
		t.Error("locked through a symbolic link")
	}
	if _, err := os.Lstat(elsewhere); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the link's target was made: %v", err)
	}
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	l, err := s.Lock(ws.ID) // a lock file that is missing is made
	if err != nil {
		t.Fatal(err)
	}
	l.Unlock()

	dir := string(s.Root.Workspace(string(ws.ID)))
	if err := errors.Join(os.Rename(dir, dir+".moved"), os.Symlink(dir+".moved", dir)); err != nil {
		t.Fatal(err)
	}
	if l, err := s.Lock(ws.ID); err == nil {
		l.Unlock()
		t.Error("locked a workspace that is a symbolic link")
	}
}

// Whoever gets the lock of a directory that a deletion has moved away must notice.
func TestLockOfAMovedWorkspace(t *testing.T) {
	s := newStore(t)
	ws := create(t, s, "one")
	dir := string(s.Root.Workspace(string(ws.ID)))
	if err := os.Rename(dir, filepath.Join(string(s.Root), "trash")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Lock(ws.ID); problem.KindOf(err) != problem.NotFound {
		t.Errorf("Lock of a workspace that was moved away: %v", err)
	}
}

func second[T any](_ T, err error) error { return err }

func show(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func names(entries []Entry) (n []string) {
	for _, e := range entries {
		n = append(n, string(e.Workspace.Name))
	}
	return slices.Clip(n)
}
