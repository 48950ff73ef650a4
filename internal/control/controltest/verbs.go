package controltest

import (
	"context"
	"fmt"
	"time"

	"bromure.io/tui/images"
	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/internal/verb"
	"bromure.io/tui/vm"
)

// steps of a start, in the fake.
var steps = []string{"disks", "boot", "ssh"}

// Do is [control.Service.Do].
func (f *Fake) Do(ctx context.Context, d wire.Do, report func(wire.Progress)) (wire.Progress, error) {
	if d.Plan != "" {
		return f.carryOut(d.Plan)
	}
	v := verb.Verb(d.Verb)
	if v == verb.ImageBuild {
		return f.build(d.Build, report)
	}
	f.mu.Lock()
	w, err := f.allowed(d.Workspace, v)
	if err != nil {
		f.mu.Unlock()
		return wire.Progress{}, err
	}
	switch v {
	case verb.Start:
		w.State = vm.Starting
		f.change()
		f.mu.Unlock()
		err = f.start(ctx, w, report)
		f.mu.Lock()
		if err != nil {
			f.discard(w)
		}
	case verb.Stop, verb.Kill:
		say(report, wire.Progress{Step: d.Verb})
		w.halt()
		f.discard(w)
		f.change()
	case verb.Keep:
		if w.Throwaway != "" {
			w.Throwaway = vm.Detached
		}
	case verb.Reboot:
		say(report, wire.Progress{Step: d.Verb})
		w.serial += fmt.Sprintf("reboot, hard: %t\n", d.Hard)
		f.change()
	}
	view := w.view()
	f.mu.Unlock()
	return wire.Progress{Workspace: &view}, err
}

func (f *Fake) start(ctx context.Context, w *space, report func(wire.Progress)) error {
	for _, step := range steps {
		say(report, wire.Progress{Step: step})
		begin := time.Now()
		if err := f.step(ctx, w, step); err != nil {
			f.mu.Lock()
			w.State, w.Failure = vm.Broken, &vm.Failure{Step: step, Err: err.Error(), Hint: problem.HintOf(err), At: time.Now()}
			f.change()
			f.mu.Unlock()
			return stepError{err, step}
		}
		say(report, wire.Progress{Step: step, Finished: true, Took: time.Since(begin)})
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	w.State, w.Failure, w.Started, w.Accelerator = vm.Running, nil, time.Now(), vm.Emulated
	w.LastUsed = w.Started
	w.DiskFormat, w.CloneKind = vm.Raw, "copy"
	if w.Image == "" {
		w.Image = string(f.images[0].Ref)
	}
	w.serial += "Linux version 6.1 \x1b[31mred\x1b[0m\n"
	f.change()
	return nil
}

func (f *Fake) step(ctx context.Context, w *space, step string) error {
	switch {
	case w.Notes == FailStart && step == "ssh":
		return problem.New(problem.DeadlineMiss, "wait for the guest: it did not answer within 90s", "`bromure-cli vm logs` shows what its kernel said.")
	case w.Notes == SlowStart:
		select { // stands for work, not for a wait
		case <-time.After(400 * time.Millisecond):
		case <-ctx.Done():
		}
	case w.Notes == HangStart:
		<-ctx.Done()
	}
	if ctx.Err() != nil {
		return problem.Wrap(problem.Interrupted, ctx.Err(), "start", "")
	}
	return nil
}

type stepError struct {
	error
	step string
}

func (e stepError) Unwrap() error      { return e.error }
func (e stepError) FailedStep() string { return e.step }

// halt ends the machine. The lock is held.
func (w *space) halt() {
	for _, c := range w.consoles {
		c.end()
	}
	clear(w.consoles)
	w.State, w.Started, w.Accelerator = vm.Off, time.Time{}, ""
}

func (f *Fake) build(b *wire.Build, report func(wire.Progress)) (wire.Progress, error) {
	distro, suite := "debian", "bookworm"
	if b != nil && b.Distro != "" {
		distro = b.Distro
	}
	if b != nil && b.Suite != "" {
		suite = b.Suite
	}
	ref, err := images.ParseRef(distro + "-" + suite)
	if err != nil {
		return wire.Progress{}, problem.Wrap(problem.Usage, err, "", "")
	}
	for _, step := range []string{"packages", "file system", "hash"} {
		say(report, wire.Progress{Step: step})
		say(report, wire.Progress{Step: step, Finished: true, Took: time.Second})
	}
	m := manifest(ref)
	m.Distro, m.Suite = distro, suite
	f.mu.Lock()
	defer f.mu.Unlock()
	f.images = append([]images.Manifest{m}, f.images...)
	return wire.Progress{Image: string(ref)}, nil
}
