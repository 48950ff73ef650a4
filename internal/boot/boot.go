// Package boot is the use case "start a workspace": the steps of a start in their order, with what is
// undone when one fails. It touches nothing itself; [Host] is what it needs done. Read boot.go first,
// then steps.go.
package boot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"bromure.io/tui/images"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/guest"
)

// Names of the host's steps. The guest's own are guest.Steps; they pass while StepGuest runs.
const (
	StepLock    = "lock"
	StepImage   = "image"
	StepDisk    = "disk"
	StepHome    = "home"
	StepArchive = "archive"
	StepMachine = "machine"
	StepNetwork = "network"
	StepGuest   = "guest"
)

// Deadlines for the guest to answer over SSH, from the start of its machine. Under emulation a cold boot
// takes 2 to 4 s on two quiet cores; a host that is busy with other things may need ten times that.
const (
	DeadlineKVM      = 30 * time.Second
	DeadlineEmulated = 120 * time.Second
)

// Image is a base image as a start needs it.
type Image struct {
	Ref                  images.Ref
	Base, Kernel, Initrd string // paths
}

// Lock is the lock of a workspace, held.
type Lock interface {
	File() *os.File // inherited by the machine's process
	Unlock()
}

// Guest is the host's side of a machine that was just started.
type Guest interface {
	// Answer waits until the guest answers over SSH with the keys of this boot and has the
	// right time. saw is called with every step that the guest reports meanwhile. A guest that
	// reports a failure, or a machine that ends, ends the wait.
	Answer(ctx context.Context, saw func(guest.Line)) error
	// Close lets go of the network and of the connection; the machine is not touched.
	Close()
}

// Host does what the steps of a start need.
type Host interface {
	Lock(id vm.ID) (Lock, error)
	Compromised(id vm.ID) (*vm.Compromise, error)

	// Image finds the image of that reference, the newest when it is empty.
	Image(ref string) (Image, error)
	// Disk makes disk.img as a clone of the image when there is none, and records in workspace.json
	// how. It returns the workspace as it is then.
	Disk(ctx context.Context, ws vm.Workspace, img Image) (vm.Workspace, string, error)
	// Home makes home.img when there is none.
	Home(ctx context.Context, ws vm.Workspace) (string, error)

	// Prepare makes the machine's runtime directory with this boot's keys and archive, and
	// returns a spec that lacks Accelerator and Lock. Discard removes that directory.
	Prepare(ctx context.Context, ws vm.Workspace, img Image) (vm.Spec, error)
	Discard(id vm.ID)

	Capabilities(ctx context.Context) (vm.Capabilities, error)
	// Distrust records that a boot under the accelerator missed its deadline, so that the next
	// Capabilities answers with emulation.
	Distrust(ctx context.Context, why string)
	StartMachine(ctx context.Context, spec vm.Spec) (vm.Machine, error)
	// Connect puts the machine on its network segment. It happens after the machine has started and
	// before the guest can have sent a frame that matters.
	Connect(ctx context.Context, spec vm.Spec, m vm.Machine) (Guest, error)

	Now() time.Time
}

// Deadlines overrides how long a guest may take to answer; zero values are the defaults.
type Deadlines struct{ KVM, Emulated time.Duration }

// Of is the deadline under that accelerator.
func (d Deadlines) Of(a vm.Accelerator) time.Duration {
	switch {
	case a == vm.Emulated && d.Emulated > 0:
		return d.Emulated
	case a == vm.Emulated:
		return DeadlineEmulated
	case d.KVM > 0:
		return d.KVM
	}
	return DeadlineKVM
}

// Result is a started workspace.
type Result struct {
	Workspace   vm.Workspace
	Machine     vm.Machine
	Guest       Guest
	Accelerator vm.Accelerator
}

// Start starts the workspace's machine and returns when its guest answers. On an error there is no
// machine, the lock is free, and what stays on disk is complete: a disk and a home that were made
// for this start are kept, since the guest may have written to them.
//
// A guest that misses its deadline under a hardware accelerator is started once more under
// emulation: a hypervisor that opens may still not work (nested virtualisation that hangs).
func Start(ctx context.Context, h Host, ws vm.Workspace, d Deadlines, report func(Event)) (*Result, error) {
	r, missed, err := attempt(ctx, h, ws, "", d, report)
	if missed && problem.KindOf(err) == problem.DeadlineMiss {
		h.Distrust(ctx, err.Error())
		report(Event{Step: StepMachine, Note: "no answer under the accelerator; once more under emulation"})
		r, _, err = attempt(ctx, h, ws, vm.Emulated, d, report)
	}
	return r, err
}

// attempt is one try. accelerated says that the guest ran under something other than emulation.
func attempt(ctx context.Context, h Host, ws vm.Workspace, force vm.Accelerator, d Deadlines, report func(Event)) (r *Result, accelerated bool, err error) {
	r = &Result{Workspace: ws}
	var (
		lock Lock
		img  Image
		spec vm.Spec
	)
	steps := []step{
		{name: StepLock, do: func(context.Context) (string, error) {
			if lock, err = h.Lock(ws.ID); err != nil {
				return "", lockProblem(ws, err)
			}
			mark, err := h.Compromised(ws.ID)
			if err == nil && mark != nil {
				err = compromised(ws, mark)
			}
			if err != nil {
				lock.Unlock()
			}
			return "", err
		}, undo: func() { lock.Unlock() }},
		{name: StepImage, do: func(context.Context) (string, error) {
			img, err = h.Image(ws.Image)
			return string(img.Ref), err
		}},
		{name: StepDisk, do: func(ctx context.Context) (note string, err error) {
			r.Workspace, note, err = h.Disk(ctx, ws, img)
			return note, err
		}},
		{name: StepHome, do: func(ctx context.Context) (string, error) {
			return h.Home(ctx, r.Workspace)
		}},
		{name: StepArchive, do: func(ctx context.Context) (string, error) {
			spec, err = h.Prepare(ctx, r.Workspace, img)
			return "", err
		}, undo: func() { h.Discard(ws.ID) }},
		{name: StepMachine, do: func(ctx context.Context) (string, error) {
			if spec.Accelerator = force; force == "" {
				caps, err := h.Capabilities(ctx)
				if err != nil {
					return "", err
				}
				spec.Accelerator = caps.Accelerator
			}
			r.Accelerator, accelerated = spec.Accelerator, spec.Accelerator != vm.Emulated
			spec.Lock = lock.File()
			r.Machine, err = h.StartMachine(ctx, spec)
			return string(spec.Accelerator), err
		}, undo: func() { end(r.Machine) }},
		{name: StepNetwork, do: func(ctx context.Context) (string, error) {
			r.Guest, err = h.Connect(ctx, spec, r.Machine)
			return "", err
		}, undo: func() { r.Guest.Close() }},
		{name: StepGuest, do: func(ctx context.Context) (string, error) {
			return "", answer(ctx, h, r, d, report)
		}},
	}
	if err = run(ctx, h.Now, steps, report); err != nil {
		return nil, accelerated, err
	}
	lock.Unlock() // the machine's process holds it now
	return r, accelerated, nil
}

// answer waits for the guest and passes its own steps on. What failed is named by the first step of
// the guest that is not done.
func answer(ctx context.Context, h Host, r *Result, d Deadlines, report func(Event)) error {
	limit := d.Of(r.Accelerator)
	wait, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	begun, next := h.Now(), 0
	err := r.Guest.Answer(wait, func(l guest.Line) {
		for i, s := range guest.Steps {
			if s == l.Step && l.Err == "" && i >= next {
				next = i + 1
				report(Event{Step: string(s), Finished: true, Took: h.Now().Sub(begun), Note: "guest"})
			}
		}
	})
	if err == nil {
		return nil
	}
	if inner, ok := errors.AsType[*StepError](err); ok {
		return inner
	}
	at := string(guest.Steps[min(next, len(guest.Steps)-1)])
	if wait.Err() != nil && ctx.Err() == nil {
		err = problem.New(problem.DeadlineMiss,
			fmt.Sprintf("the guest did not get there within %v", limit),
			"Look at what it printed: bromure-cli vm logs --kind serial "+r.Workspace.ID.Short())
	}
	return &StepError{Step: at, Err: err}
}

// end kills a machine whose start failed. It gets a context of its own: the start's may be the one that ended.
func end(m vm.Machine) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	_ = m.Kill(ctx)
}

func lockProblem(ws vm.Workspace, err error) error {
	if errors.Is(err, vm.ErrLocked) {
		return problem.Wrap(problem.Refused, err, fmt.Sprintf("start %q", ws.Name),
			"Its machine runs, or another verb works on it: bromure-cli vm ls")
	}
	return err
}

func compromised(ws vm.Workspace, mark *vm.Compromise) error {
	return problem.New(problem.Refused,
		fmt.Sprintf("%q is marked compromised (%s) and does not boot", ws.Name, mark.Reason),
		"Its disk and home must be wiped first.")
}
