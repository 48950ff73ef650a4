package store

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
)

func index(t *testing.T, s *Store) macIndex {
	t.Helper()
	idx, err := s.readIndex()
	if err != nil {
		t.Fatal(err)
	}
	return idx
}

func TestMACsAreReserved(t *testing.T) {
	s := newStore(t)
	a, b := create(t, s, "a"), create(t, s, "b")
	if a.MAC == b.MAC || a.MAC.Check() != nil {
		t.Errorf("addresses %s and %s", a.MAC, b.MAC)
	}
	if err := s.Release(t.Context(), a.ID); problem.KindOf(err) != problem.Refused {
		t.Errorf("release of an address in use: %v", err)
	}
	// Deleted: first moved to the trash, where it still holds its address.
	trash := filepath.Join(string(s.Root), "trash")
	if err := os.Rename(string(s.Root.Workspace(string(a.ID))), trash); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(s.Root); err != nil {
		t.Fatal(err)
	}
	if idx := index(t, s); idx[a.ID] != a.MAC {
		t.Errorf("the address of a workspace in the trash is free: %v", idx)
	}
	r, err := s.register(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	entries, err := s.scan()
	if err != nil {
		t.Fatal(err)
	}
	draws := []vm.MAC{a.MAC, b.MAC, a.MAC, "02:00:00:00:00:07"}
	got, err := r.reserve(vm.NewID(), entries, func() vm.MAC {
		m := draws[0]
		draws = draws[1:]
		return m
	})
	if err != nil || got != "02:00:00:00:00:07" {
		t.Errorf("reserve = %s, %v", got, err)
	}
	if _, err := r.reserve(vm.NewID(), entries, func() vm.MAC { return b.MAC }); err == nil {
		t.Error("an address was given twice")
	}
	r.unlock()
	for range 2 {
		if err := s.Release(t.Context(), a.ID); err != nil {
			t.Errorf("Release: %v", err)
		}
	}
	if idx := index(t, s); idx[a.ID] != "" || idx[b.ID] != b.MAC {
		t.Errorf("after Release: %v", idx)
	}
}

func TestMACIndexIsRebuilt(t *testing.T) {
	s := newStore(t)
	ws := create(t, s, "a")
	for name, content := range map[string]string{
		"missing": "", "damaged": "{\"", "null": "null", "a list": "[]",
		"foreign": `{"../canary":"02:00:00:00:00:01","` + string(ws.ID) + `":"not an address"}`,
	} {
		var err error
		if name == "missing" {
			err = os.Remove(s.Root.MACs())
		} else {
			err = os.WriteFile(s.Root.MACs(), []byte(content), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.Load(ws.ID); err != nil || got.MAC != ws.MAC {
			t.Errorf("%s: Load: %v", name, err)
		}
		if _, err := Open(s.Root); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		data, err := os.ReadFile(s.Root.MACs())
		var idx map[string]string
		if err == nil {
			err = json.Unmarshal(data, &idx)
		}
		if err != nil || len(idx) != 1 || idx[string(ws.ID)] != string(ws.MAC) {
			t.Errorf("%s: rebuilt as %s, %v", name, data, err)
		}
	}
}

func TestMachineState(t *testing.T) {
	s := newStore(t)
	ws := create(t, s, "a")
	path := s.Root.Workspace(string(ws.ID)).State()
	if st, err := s.MachineState(ws.ID); err != nil || st.Machine != nil || st.Failure != nil {
		t.Errorf("before the first start: %+v, %v", st, err)
	}
	if err := s.ClearMachine(ws.ID, nil); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("state.json says nothing and exists: %v", err)
	}
	rec := vm.Record{Backend: "fake", PID: 42, StartTicks: 7, BootID: "b", Executable: "/x", UUID: ws.ID.UUID(), Started: noon}
	dir := layout.Runtime("/run/user/1000/bromure/0123").Machine(string(ws.ID))
	if err := s.SetMachine(ws.ID, rec, vm.Spec{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	st, err := s.MachineState(ws.ID)
	if err != nil || st.Machine == nil || *st.Machine != rec || st.Dir != dir || st.Failure != nil {
		t.Errorf("after SetMachine: %s, %v", show(st), err)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode() != 0o600 {
		t.Errorf("state.json: %v, %v", fi.Mode(), err)
	}
	failure := vm.Failure{Step: "guest", Err: "no answer", Hint: "look", At: noon}
	if err := s.ClearMachine(ws.ID, &failure); err != nil {
		t.Fatal(err)
	}
	st, err = s.MachineState(ws.ID)
	if err != nil || st.Machine != nil || st.Dir != "" || st.Failure == nil || *st.Failure != failure {
		t.Errorf("after a failure: %s, %v", show(st), err)
	}
	if err := s.ClearMachine(ws.ID, nil); err != nil {
		t.Fatal(err)
	}
	if st, err := s.MachineState(ws.ID); err != nil || st.Failure != nil {
		t.Errorf("after a success: %s, %v", show(st), err)
	}
	if err := s.SetMachine(vm.NewID(), rec, vm.Spec{}); problem.KindOf(err) != problem.NotFound {
		t.Errorf("SetMachine of nothing: %v", err)
	}
}

func TestMachineStateDamaged(t *testing.T) {
	s := newStore(t)
	ws := create(t, s, "a")
	path := s.Root.Workspace(string(ws.ID)).State()
	for _, content := range []string{
		"", "{", "null", "[]", "{}", `{"version":"1"}`, `{"version":1,"machine":7}`,
		`{"version":1,"dir":"/tmp/canary"}`,
		`{"version":1,"dir":"../canary"}`,
		`{"version":1,"dir":"/run/m/../../canary/` + ws.ID.Short() + `"}`,
		`{"version":1,"dir":"/run/m/` + vm.NewID().Short() + `"}`,
		strings.Repeat(" ", maxFile+1),
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if st, err := s.MachineState(ws.ID); err == nil || st.Machine != nil || st.Dir != "" {
			t.Errorf("%.60q: %+v, %v", content, st, err)
		}
		if err := s.ClearMachine(ws.ID, &vm.Failure{Step: "x"}); err != nil {
			t.Errorf("%.60q: it is not replaced: %v", content, err)
		}
		if st, err := s.MachineState(ws.ID); err != nil || st.Failure == nil {
			t.Errorf("%.60q: after it was replaced: %v", content, err)
		}
	}
	newer := `{"version":2,"machine":"?"}`
	if err := os.WriteFile(path, []byte(newer), 0o600); err != nil {
		t.Fatal(err)
	}
	for verb, err := range map[string]error{
		"MachineState": second(s.MachineState(ws.ID)),
		"ClearMachine": s.ClearMachine(ws.ID, nil),
		"SetMachine":   s.SetMachine(ws.ID, vm.Record{}, vm.Spec{}),
	} {
		if problem.KindOf(err) != problem.Refused {
			t.Errorf("%s of a newer version's file: %v", verb, err)
		}
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != newer {
		t.Errorf("a newer version's file became %s, %v", data, err)
	}
}

// Only the absence of the mark lets a workspace boot.
func TestCompromise(t *testing.T) {
	s := newStore(t)
	ws := create(t, s, "a")
	path := s.Root.Workspace(string(ws.ID)).Compromised()
	if mark, err := s.Compromise(ws.ID); mark != nil || err != nil {
		t.Errorf("without a mark: %v, %v", mark, err)
	}
	file := func(content string) func() error {
		return func() error { return os.WriteFile(path, []byte(content), 0o600) }
	}
	for name, plant := range map[string]func() error{
		"whole":     file(`{"reason":"a key went to example.org","at":"2026-12-01T12:00:00Z"}`),
		"empty":     file(""),
		"damaged":   file("{\"reason\":"),
		"null":      file("null"),
		"no reason": file("{}"),
		"huge":      file(strings.Repeat(" ", maxFile+1)),
		"directory": func() error { return os.Mkdir(path, 0o700) },
		"link":      func() error { return os.Symlink("nowhere", path) },
	} {
		if err := plant(); err != nil {
			t.Fatal(err)
		}
		mark, err := s.Compromise(ws.ID)
		if err != nil || mark == nil || mark.Reason == "" {
			t.Errorf("%s: %v, %v", name, mark, err)
		} else if name == "whole" && (mark.Reason != "a key went to example.org" || !mark.At.Equal(noon)) {
			t.Errorf("%s: %+v", name, mark)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Compromise(vm.NewID()); problem.KindOf(err) != problem.NotFound {
		t.Errorf("of nothing: %v", err)
	}
}
