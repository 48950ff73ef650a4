package daemontest

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"bromure.io/tui/internal/atomicfile"
	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/verb"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/guest"
	"bromure.io/tui/vm/store"
)

// Names of the workspaces that operations work on, and of one that none has any business with.
const (
	target    = "target"
	bystander = "bystander"
	fresh     = "fresh"
)

// Operation is something that changes the disk.
type Operation struct {
	Name string

	// Prepare makes what the operation finds, while no daemon runs. The place has two images and the bystander.
	Prepare func(p *Place) error
	// Boot brings a daemon that runs to where the operation begins. It is not cut. Nil: nothing is to be done.
	Boot func(ctx context.Context, pr *Process) error
	// Do is what is cut at each of its steps. It returns when all of them are done. Nil: the start of the daemon is what is cut.
	Do func(ctx context.Context, p *Place, pr *Process) error

	// Things says that the operation makes several things, each of which is whole or not there. Others do all or nothing.
	Things bool
	// Ends says that afterwards there is neither a daemon nor anything for one.
	Ends bool
}

// Operations are the rows of the harness. What a later verb does to the disk gets a row here.
func Operations() []Operation {
	return []Operation{
		{Name: "first start of the daemon", Prepare: nothing, Things: true},
		{Name: "start of the daemon after a crash", Prepare: crashed},
		{Name: "create", Prepare: nothing, Do: func(ctx context.Context, _ *Place, pr *Process) error {
			_, err := pr.Create(ctx, wire.Create{Name: fresh, MemoryMiB: vm.MinMemoryMiB, HomeMiB: vm.MinHomeMiB})
			return err
		}},
		{Name: "first start (clones the base)", Prepare: unstarted, Do: do(verb.Start), Things: true},
		{Name: "start", Prepare: full, Do: do(verb.Start)},
		{Name: "stop", Prepare: full, Boot: started, Do: do(verb.Stop)},
		{Name: "kill", Prepare: full, Boot: started, Do: do(verb.Kill)},
		{Name: "reset", Prepare: full, Do: plan(verb.Reset, target)},
		{Name: "erase-home", Prepare: full, Do: plan(verb.EraseHome, target)},
		{Name: "delete", Prepare: full, Do: plan(verb.Delete, target)},
		{Name: "image rm", Prepare: nothing, Do: func(ctx context.Context, p *Place, pr *Process) error {
			ref, err := oldImage(ctx, pr)
			if err != nil {
				return err
			}
			return plan(verb.ImageRm, ref)(ctx, p, pr)
		}},
		{Name: "image prune", Prepare: nothing, Do: plan(verb.ImagePrune, "")},
		{Name: "vm run --rm -- true", Prepare: nothing, Do: func(ctx context.Context, p *Place, pr *Process) error {
			if err := thrownAway(vm.Attached)(ctx, pr); err != nil {
				return err
			}
			return on(verb.Kill)(ctx, p, pr)
		}},
		{Name: "vm run --rm: its front dies", Prepare: nothing, Boot: thrownAway(vm.Attached), Do: frontDies},
		{Name: "vm run --rm -d: stop", Prepare: nothing, Boot: thrownAway(vm.Detached), Do: on(verb.Stop)},
		{Name: "uninstall", Prepare: full, Do: plan(verb.Uninstall, ""), Ends: true},
	}
}

func nothing(*Place) error { return nil }

// unstarted has a workspace that was never started.
func unstarted(p *Place) error {
	_, err := p.AddWorkspace(store.NewWorkspace{Name: target})
	return err
}

// full has a workspace with things of every kind, but for the mark that would keep it from starting.
func full(p *Place) error {
	ws, err := p.AddWorkspace(store.NewWorkspace{Name: target})
	if err == nil {
		_, err = p.Fill(ws, vm.KindMark)
	}
	return err
}

// crashed has what an earlier daemon left that was killed in the middle of everything: an erase-home of which half is in the
// trash, a workspace that was being made, one that was to be thrown away and whose machine ran, and temporary files.
func crashed(p *Place) error {
	if err := full(p); err != nil {
		return err
	}
	pr, err := p.Spawn("")
	if err != nil {
		return err
	}
	defer pr.Kill()
	if err := pr.Arm("at:removal: moved"); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = plan(verb.EraseHome, target)(ctx, p, pr)
	if err := pr.Killed(ctx); err != nil {
		return err
	}
	rm, err := p.AddWorkspace(store.NewWorkspace{Name: "thrown away", Throwaway: vm.Detached})
	if err != nil {
		return err
	}
	s := &store.Store{Root: p.Root}
	err = s.SetMachine(rm.ID, vm.Record{Backend: "fake", PID: 1 << 30, UUID: rm.ID.UUID(), Started: Epoch()},
		vm.Spec{Dir: p.Runtime.Machine(string(rm.ID))})
	if err != nil {
		return err
	}
	half, err := p.AddWorkspace(store.NewWorkspace{Name: "half made"})
	if err != nil {
		return err
	}
	if err := os.Rename(string(p.Root.Workspace(string(half.ID))), string(p.Root.NewWorkspace(string(half.ID)))); err != nil {
		return err
	}
	if err := layout.Ensure(string(p.Runtime.Machine(string(rm.ID)))); err != nil {
		return err
	}
	for _, path := range []string{p.Root.MACs(), p.Root.Workspace(string(rm.ID)).Config(), filepath.Join(p.Root.Trash(), "x")} {
		f, err := atomicfile.Create(path, layout.FileMode)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil { // neither committed nor aborted, as after kill -9
			return err
		}
	}
	return nil
}

func started(ctx context.Context, pr *Process) error {
	_, err := pr.Client.Do(ctx, wire.Do{Verb: string(verb.Start), Workspace: target}, nil)
	return err
}

func do(v verb.Verb) func(context.Context, *Place, *Process) error {
	return func(ctx context.Context, _ *Place, pr *Process) error {
		_, err := pr.Client.Do(ctx, wire.Do{Verb: string(v), Workspace: target}, nil)
		return err
	}
}

// plan plans a verb and carries the plan out.
func plan(v verb.Verb, subject string) func(context.Context, *Place, *Process) error {
	return func(ctx context.Context, _ *Place, pr *Process) error {
		p, err := pr.Plan(ctx, wire.PlanRequest{Verb: v, Subject: subject})
		if err != nil {
			return err
		}
		if len(p.Losses) == 0 {
			return fmt.Errorf("the plan of %s names nothing", v)
		}
		_, err = pr.Client.Do(ctx, wire.Do{Plan: p.ID}, nil)
		return err
	}
}

func oldImage(ctx context.Context, pr *Process) (string, error) {
	list, err := pr.Images(ctx)
	if err != nil || len(list) < 2 {
		return "", fmt.Errorf("%d images: %w", len(list), err)
	}
	return string(list[len(list)-1].Ref), nil
}

// thrownAway does what `vm run --rm` does, up to the end of its command.
func thrownAway(kind vm.Throwaway) func(context.Context, *Process) error {
	return func(ctx context.Context, pr *Process) error {
		w, err := pr.Create(ctx, wire.Create{Name: fresh, Throwaway: kind, MemoryMiB: vm.MinMemoryMiB, HomeMiB: vm.MinHomeMiB})
		if err != nil {
			return err
		}
		pr.booted = string(w.ID)
		if kind == vm.Attached {
			if pr.leave, err = pr.Lease(context.Background(), pr.booted); err != nil {
				return err
			}
		}
		if err := on(verb.Start)(ctx, nil, pr); err != nil {
			return err
		}
		s, err := pr.Attach(ctx, pr.booted, wire.Attach{Exec: &guest.Exec{Argv: []string{"true"}}})
		if err != nil {
			return err
		}
		defer s.Close()
		_, _ = io.Copy(io.Discard, s.Stdout())
		_, _ = io.Copy(io.Discard, s.Stderr())
		if code, err := s.Wait(); err != nil || code != 0 {
			return fmt.Errorf("the command's code is %d: %w", code, err)
		}
		return nil
	}
}

// on does a verb to the workspace that was made last.
func on(v verb.Verb) func(context.Context, *Place, *Process) error {
	return func(ctx context.Context, _ *Place, pr *Process) error {
		_, err := pr.Client.Do(ctx, wire.Do{Verb: string(v), Workspace: pr.booted}, nil)
		return err
	}
}

// frontDies ends the connection of a lease, which is all that the daemon sees of the end of a front, and waits until
// the workspace is deleted.
func frontDies(ctx context.Context, p *Place, pr *Process) error {
	pr.leave()
	return p.swept(ctx, pr, pr.booted)
}

// swept waits until a workspace is deleted to the last step of its removal, or the daemon has ended.
func (p *Place) swept(ctx context.Context, pr *Process, id string) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := os.Lstat(string(p.Root.Workspace(id)))
		left, _ := os.ReadDir(p.Root.Trash())
		left = deleteReserve(left)
		if err != nil && len(left) == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-pr.ended:
			return io.ErrUnexpectedEOF
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// deleteReserve leaves out what is always in the trash.
func deleteReserve(entries []fs.DirEntry) (left []fs.DirEntry) {
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".reserve") {
			left = append(left, e)
		}
	}
	return left
}
