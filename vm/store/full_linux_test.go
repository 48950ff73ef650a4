package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
)

func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 16; size > 0; size /= 2 {
		for {
			if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k,mode=0700"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	s, err := Open(layout.Root(filepath.Join(dir, "root")))
	if err != nil {
		t.Fatal(err)
	}
	ws := create(t, s, "before")
	before, err := os.ReadFile(s.Root.Workspace(string(ws.ID)).Config())
	if err != nil {
		t.Fatal(err)
	}
	ballast := filepath.Join(dir, "ballast")
	fill(t, ballast)

	for verb, err := range map[string]error{
		"Create":     second(s.Create(t.Context(), NewWorkspace{Name: "after"})),
		"Update":     second(s.Update(ws.ID, func(w *vm.Workspace) error { w.Notes = strings.Repeat("n", 60<<10); return nil })),
		"SetMachine": s.SetMachine(ws.ID, vm.Record{Backend: strings.Repeat("b", 60<<10)}, vm.Spec{}),
	} {
		if !problem.IsFull(err) || !strings.Contains(problem.HintOf(err), "Make room") {
			t.Errorf("%s: %v; hint %q", verb, err, problem.HintOf(err))
		}
	}
	if l, err := s.Lock(ws.ID); err != nil {
		t.Errorf("Lock: %v", err)
	} else {
		l.Unlock()
	}
	if got := list(t, s); len(got) != 1 || got[0].Err != nil {
		t.Errorf("List = %q", names(got))
	}
	if after, err := os.ReadFile(s.Root.Workspace(string(ws.ID)).Config()); err != nil || string(after) != string(before) {
		t.Errorf("workspace.json is now %s, %v", after, err)
	}
	if _, err := Open(s.Root); err != nil {
		t.Errorf("Open: %v", err)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	create(t, s, "after")
	if _, err := Open(s.Root); err != nil {
		t.Error(err)
	}
	left, err := filepath.Glob(filepath.Join(s.Root.Workspaces(), ".*"))
	if err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
	if idx := index(t, s); len(idx) != 2 {
		t.Errorf("addresses: %v", idx)
	}
}
