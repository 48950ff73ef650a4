package boot

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/guest"
)

var errBoom = errors.New("boom")

// host records what a start asks of it and fails at one named point.
type host struct {
	failAt   string
	lockErr  error
	mark     *vm.Compromise
	accel    vm.Accelerator
	silent   map[vm.Accelerator]bool // guests that never answer
	says     []guest.Line
	calls    []string
	distrust string
}

func (h *host) do(name string) error {
	h.calls = append(h.calls, name)
	if h.failAt == name {
		return errBoom
	}
	return nil
}

type hostLock struct{ h *host }

func (l hostLock) File() *os.File { return nil }
func (l hostLock) Unlock()        { l.h.calls = append(l.h.calls, "unlock") }

func (h *host) Lock(vm.ID) (Lock, error) {
	if h.lockErr != nil {
		return nil, h.lockErr
	}
	return hostLock{h}, h.do("lock")
}
func (h *host) Compromised(vm.ID) (*vm.Compromise, error) { return h.mark, h.do("mark") }
func (h *host) Image(string) (Image, error)               { return Image{Ref: "img"}, h.do("image") }
func (h *host) Disk(_ context.Context, ws vm.Workspace, _ Image) (vm.Workspace, string, error) {
	ws.Image = "img"
	return ws, "", h.do("disk")
}
func (h *host) Home(context.Context, vm.Workspace) (string, error) { return "", h.do("home") }
func (h *host) Prepare(context.Context, vm.Workspace, Image) (vm.Spec, error) {
	return vm.Spec{}, h.do("prepare")
}
func (h *host) Discard(vm.ID) { h.calls = append(h.calls, "discard") }
func (h *host) Capabilities(context.Context) (vm.Capabilities, error) {
	return vm.Capabilities{Accelerator: h.accel}, h.do("capabilities")
}
func (h *host) Distrust(_ context.Context, why string) { h.distrust = why }
func (h *host) StartMachine(_ context.Context, s vm.Spec) (vm.Machine, error) {
	return &machine{h: h}, h.do("machine:" + string(s.Accelerator))
}
func (h *host) Connect(_ context.Context, s vm.Spec, _ vm.Machine) (Guest, error) {
	return &answerer{h, s.Accelerator}, h.do("connect")
}
func (h *host) Now() time.Time { return time.Now() }

type machine struct{ h *host }

func (m *machine) Record() vm.Record            { return vm.Record{} }
func (m *machine) NIC() io.ReadWriteCloser      { return nil }
func (m *machine) Serial() io.Reader            { return nil }
func (m *machine) Events() <-chan vm.Event      { return nil }
func (m *machine) Pause(context.Context) error  { return nil }
func (m *machine) Resume(context.Context) error { return nil }
func (m *machine) Reset(context.Context) error  { return nil }
func (m *machine) Done() <-chan struct{}        { return nil }
func (m *machine) Release() error               { return nil }
func (m *machine) Kill(context.Context) error   { m.h.calls = append(m.h.calls, "kill"); return nil }

type answerer struct {
	h     *host
	accel vm.Accelerator
}

func (a *answerer) Answer(ctx context.Context, saw func(guest.Line)) error {
	for _, l := range a.h.says {
		saw(l)
	}
	if err := a.h.do("answer"); err != nil {
		return err
	}
	if a.h.silent[a.accel] {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}
func (a *answerer) Close() { a.h.calls = append(a.h.calls, "close") }

func start(t *testing.T, h *host) (*Result, []Event, error) {
	t.Helper()
	var events []Event
	if h.accel == "" {
		h.accel = vm.Emulated
	}
	r, err := Start(t.Context(), h, vm.Workspace{ID: vm.NewID(), Name: "w"}, Deadlines{}, func(e Event) { events = append(events, e) })
	return r, events, err
}

// Every step that fails is named, and what was done before it is undone, last first.
func TestFailureIsUndone(t *testing.T) {
	for _, c := range []struct {
		failAt, step string
		undone       []string // in this order, after the failing call
	}{
		{"lock", StepLock, nil},
		{"mark", StepLock, []string{"unlock"}},
		{"image", StepImage, []string{"unlock"}},
		{"disk", StepDisk, []string{"unlock"}},
		{"home", StepHome, []string{"unlock"}},
		{"prepare", StepArchive, []string{"unlock"}},
		{"capabilities", StepMachine, []string{"discard", "unlock"}},
		{"machine:emulated", StepMachine, []string{"discard", "unlock"}},
		{"connect", StepNetwork, []string{"kill", "discard", "unlock"}},
		{"answer", string(guest.StepKernel), []string{"close", "kill", "discard", "unlock"}},
	} {
		t.Run(c.failAt, func(t *testing.T) {
			h := &host{failAt: c.failAt}
			r, _, err := start(t, h)
			var se *StepError
			if r != nil || !errors.As(err, &se) || se.Step != c.step || !errors.Is(err, errBoom) {
				t.Fatalf("result %v, error %v; want step %q with the cause", r, err, c.step)
			}
			at := slices.Index(h.calls, c.failAt)
			if got := h.calls[at+1:]; !slices.Equal(got, c.undone) {
				t.Errorf("after %s: %v, want %v", c.failAt, got, c.undone)
			}
		})
	}
}

func TestStartGivesTheLockToTheMachine(t *testing.T) {
	h := &host{says: []guest.Line{{Step: guest.StepKernel}, {Step: guest.StepSSH}}}
	r, events, err := start(t, h)
	if err != nil {
		t.Fatal(err)
	}
	if r.Workspace.Image != "img" {
		t.Error("the result does not carry what the disk step recorded")
	}
	if got := h.calls[len(h.calls)-1]; got != "unlock" || slices.Contains(h.calls, "kill") {
		t.Errorf("calls %v: the daemon's own descriptor is closed last, and nothing is undone", h.calls)
	}
	var done []string
	for _, e := range events {
		if e.Finished {
			done = append(done, e.Step)
		}
	}
	want := []string{StepLock, StepImage, StepDisk, StepHome, StepArchive, StepMachine, StepNetwork, "kernel", "ssh", StepGuest}
	if !slices.Equal(done, want) {
		t.Errorf("finished steps %v, want %v", done, want)
	}
}

func TestRefusals(t *testing.T) {
	h := &host{lockErr: vm.ErrLocked}
	if _, _, err := start(t, h); problem.KindOf(err) != problem.Refused || !errors.Is(err, vm.ErrLocked) {
		t.Errorf("locked: %v", err)
	}
	h = &host{mark: &vm.Compromise{Reason: "a fake left"}}
	_, _, err := start(t, h)
	if err == nil || !strings.Contains(err.Error(), "compromised") || problem.HintOf(err) == "" {
		t.Errorf("compromised: %v (hint %q)", err, problem.HintOf(err))
	}
	if slices.Contains(h.calls, "disk") {
		t.Error("a compromised workspace got as far as its disk")
	}
}

// A guest that stays silent under the accelerator is started once more under emulation.
func TestDeadline(t *testing.T) {
	for _, c := range []struct {
		name     string
		accel    vm.Accelerator
		silent   map[vm.Accelerator]bool
		says     []guest.Line
		wantStep string
		machines []string
	}{
		{"kvm hangs", vm.KVM, map[vm.Accelerator]bool{vm.KVM: true}, nil, "", []string{"machine:kvm", "machine:emulated"}},
		{"both hang", vm.KVM, map[vm.Accelerator]bool{vm.KVM: true, vm.Emulated: true}, nil, "kernel", []string{"machine:kvm", "machine:emulated"}},
		{"emulation hangs", vm.Emulated, map[vm.Accelerator]bool{vm.Emulated: true}, []guest.Line{{Step: guest.StepKernel}, {Step: guest.StepModules}}, "network", []string{"machine:emulated"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &host{accel: c.accel, silent: c.silent, says: c.says}
				_, _, err := start(t, h)
				var step string
				if se := (*StepError)(nil); errors.As(err, &se) {
					step = se.Step
				}
				if step != c.wantStep {
					t.Errorf("error %v names step %q, want %q", err, step, c.wantStep)
				}
				if err != nil && problem.KindOf(err) != problem.DeadlineMiss {
					t.Errorf("kind %q", problem.KindOf(err))
				}
				var machines []string
				for _, call := range h.calls {
					if strings.HasPrefix(call, "machine:") {
						machines = append(machines, call)
					}
				}
				if !slices.Equal(machines, c.machines) {
					t.Errorf("machines %v, want %v", machines, c.machines)
				}
				if (h.distrust != "") != (c.accel == vm.KVM) {
					t.Errorf("distrust %q", h.distrust)
				}
			})
		})
	}
}

func TestCancelledStartLeavesNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	h := &host{accel: vm.Emulated, silent: map[vm.Accelerator]bool{vm.Emulated: true}}
	_, err := Start(ctx, h, vm.Workspace{}, Deadlines{}, func(e Event) {
		if e.Step == StepGuest {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if want := []string{"close", "kill", "discard", "unlock"}; !slices.Equal(h.calls[len(h.calls)-4:], want) {
		t.Errorf("calls %v", h.calls)
	}
}
