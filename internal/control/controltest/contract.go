package controltest

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"bromure.io/tui/internal/control"
	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
)

// Contract is what every [control.Service] does, with a new, empty one for each part. Where boots
// is false, machines cannot be started, and what needs one is left out.
func Contract(t *testing.T, boots bool, open func(t *testing.T) control.Service) {
	parts := []struct {
		name  string
		boots bool
		part  func(*testing.T, control.Service)
	}{
		{"health", false, contractHealth},
		{"watch", false, contractWatch},
		{"references", false, contractReferences},
		{"create", false, contractCreate},
		{"off", false, contractOff},
		{"life", true, contractLife},
		{"exec", true, contractExec},
		{"shutdown", false, contractShutdown},
	}
	for _, p := range parts {
		if p.boots && !boots {
			continue
		}
		t.Run(p.name, func(t *testing.T) { p.part(t, open(t)) })
	}
}

func wantKind(t *testing.T, what string, err error, kind problem.Kind) {
	t.Helper()
	if err == nil || wire.FromError(err).Kind != kind {
		t.Errorf("%s: %v, want a problem of kind %s", what, err, kind)
	}
}

func mustCreate(t *testing.T, s control.Service, c wire.Create) wire.Workspace {
	t.Helper()
	w, err := s.Create(t.Context(), c)
	if err != nil {
		t.Fatalf("create %+v: %v", c, err)
	}
	return w
}

func contractHealth(t *testing.T, s control.Service) {
	h := s.Health()
	if h.API != wire.API || h.PID <= 0 || h.Version == "" || h.Root == "" || h.Started.IsZero() {
		t.Errorf("%+v", h)
	}
}

// contractWatch: the state of now comes at once, a change comes by itself, and a consumer that was busy
// gets the newest state only.
func contractWatch(t *testing.T, s control.Service) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen, last := 0, uint64(0)
	for snap := range s.Watch(ctx) {
		if snap.Now.IsZero() || snap.Health.PID == 0 {
			t.Errorf("snapshot without a time or without a daemon: %+v", snap)
		}
		if seen > 0 && snap.Seq <= last {
			t.Errorf("sequence %d after %d", snap.Seq, last)
		}
		seen, last = seen+1, snap.Seq
		if len(snap.Workspaces) == 3 {
			if snap.Workspaces[0].Name != "a" || snap.Workspaces[2].Name != "c" {
				t.Errorf("not by name: %s, %s", snap.Workspaces[0].Name, snap.Workspaces[2].Name)
			}
			return
		}
		if seen == 1 {
			for _, name := range []string{"b", "c", "a"} { // while the consumer is busy
				mustCreate(t, s, wire.Create{Name: name})
			}
		}
	}
	t.Fatalf("the watch ended before it had three workspaces: %v", ctx.Err())
}

func contractReferences(t *testing.T, s control.Service) {
	w := mustCreate(t, s, wire.Create{Name: "Café"})
	for _, ref := range []string{"Café", "cafe\u0301", "CAFÉ", string(w.ID), w.ID.Short()} {
		if got, err := s.Workspace(t.Context(), ref); err != nil || got.ID != w.ID {
			t.Errorf("%q: %s, %v", ref, got.ID, err)
		}
	}
	_, err := s.Workspace(t.Context(), "nothing")
	wantKind(t, "unknown name", err, problem.NotFound)
	if problem.HintOf(err) == "" {
		t.Error("an unknown name has no hint")
	}
	_, err = s.Do(t.Context(), wire.Do{Verb: "start", Workspace: "nothing"}, nil)
	wantKind(t, "start of an unknown name", err, problem.NotFound)
	_, err = s.Logs(t.Context(), "nothing", "serial", wire.LogQuery{Tail: -1})
	wantKind(t, "log of an unknown name", err, problem.NotFound)
}

func contractCreate(t *testing.T, s control.Service) {
	w := mustCreate(t, s, wire.Create{})
	if w.Name == "" || w.State != vm.Off || w.Dir == "" || w.Check() != nil {
		t.Errorf("made of nothing: %+v, %v", w, w.Check())
	}
	w = mustCreate(t, s, wire.Create{Name: "full", MemoryMiB: 512, CPUs: 3, HomeMiB: 2048, Notes: "n\x1b", Color: "red"})
	if w.MemoryMiB != 512 || w.CPUs != 3 || w.HomeMiB != 2048 || w.Notes != "n\x1b" || w.Color != "red" {
		t.Errorf("with everything: %+v", w)
	}
	for kind, c := range map[problem.Kind]wire.Create{
		problem.Refused: {Name: "FULL"},
		problem.Usage:   {Name: "../canary"},
	} {
		_, err := s.Create(t.Context(), c)
		wantKind(t, "create "+c.Name, err, kind)
	}
	_, err := s.Create(t.Context(), wire.Create{Name: "huge", MemoryMiB: vm.MaxMemoryMiB + 1})
	wantKind(t, "too much memory", err, problem.Usage)
	_, err = s.Create(t.Context(), wire.Create{Name: "tiny", MemoryMiB: 1})
	wantKind(t, "too little memory", err, problem.Usage)
}

// contractOff: what a workspace that is off refuses.
func contractOff(t *testing.T, s control.Service) {
	mustCreate(t, s, wire.Create{Name: "w"})
	for _, verb := range []string{"stop", "kill", "reboot"} {
		_, err := s.Do(t.Context(), wire.Do{Verb: verb, Workspace: "w"}, nil)
		wantKind(t, verb, err, problem.Refused)
	}
	_, err := s.Attach(t.Context(), "w", execOf("true"))
	wantKind(t, "exec", err, problem.Refused)
	_, err = s.Ports(t.Context(), "w")
	wantKind(t, "ports", err, problem.Refused)
	_, err = s.Forward(t.Context(), "w", "localhost:80")
	wantKind(t, "forward", err, problem.Refused)
	log, err := s.Logs(t.Context(), "w", "serial", wire.LogQuery{Tail: -1})
	if err != nil {
		t.Fatalf("the log of one that never ran: %v", err)
	}
	if _, err := io.Copy(io.Discard, log); err != nil {
		t.Errorf("the log of one that never ran: %v", err)
	}
	log.Close()
}

func contractLife(t *testing.T, s control.Service) {
	mustCreate(t, s, wire.Create{Name: "w"})
	steps := 0
	last, err := s.Do(t.Context(), wire.Do{Verb: "start", Workspace: "w"}, func(wire.Progress) { steps++ })
	if err != nil || last.Workspace == nil || last.Workspace.State != vm.Running || last.Workspace.Started.IsZero() || steps == 0 {
		t.Fatalf("start: %+v, %v, %d reports", last, err, steps)
	}
	_, err = s.Do(t.Context(), wire.Do{Verb: "start", Workspace: "w"}, nil)
	wantKind(t, "second start", err, problem.Refused)
	if hint := problem.HintOf(err); !strings.Contains(hint, "exec") || !strings.Contains(hint, "attach") {
		t.Errorf("hint of a second start: %q", hint)
	}
	last, err = s.Do(t.Context(), wire.Do{Verb: "stop", Workspace: "w", Timeout: time.Minute}, nil)
	if err != nil || last.Workspace == nil || last.Workspace.State != vm.Off {
		t.Fatalf("stop: %+v, %v", last, err)
	}
}

func contractShutdown(t *testing.T, s control.Service) {
	for range 2 { // asking twice does no harm
		if err := s.Shutdown(t.Context(), wire.Shutdown{}, nil); err != nil {
			t.Fatal(err)
		}
	}
}
