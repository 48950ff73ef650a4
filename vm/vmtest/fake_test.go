//go:build unix

package vmtest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"bromure.io/tui/vm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// prepareFake gives a fake machine files of the kinds that a real one has.
func prepareFake(t *testing.T, spec *vm.Spec) {
	dir := t.TempDir()
	spec.Accelerator = vm.Emulated
	spec.Workspace.DiskFormat = vm.Raw
	spec.Kernel = filepath.Join(dir, "kernel")
	spec.Disk = filepath.Join(dir, "disk.img")
	spec.Home = filepath.Join(dir, "home.img")
	for _, p := range []string{spec.Kernel, spec.Disk, spec.Home} {
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(p, 4<<20); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFakePassesTheContract(t *testing.T) {
	Contract(t, func(t *testing.T) Harness {
		f := &Fake{}
		return Harness{
			Backend: f, Next: func() vm.Backend { return f }, Prepare: prepareFake, Patience: 20 * time.Second,
		}
	})
}

func startFake(t *testing.T, f *Fake) (vm.Machine, vm.Spec) {
	t.Helper()
	spec := NewSpec(t)
	prepareFake(t, &spec)
	m, err := f.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return m, spec
}

func TestFakeHooks(t *testing.T) {
	t.Run("fails to start", func(t *testing.T) {
		boom := errors.New("boom")
		spec := NewSpec(t)
		prepareFake(t, &spec)
		f := &Fake{FailStart: func(vm.Spec) error { return boom }}
		if _, err := f.Start(t.Context(), spec); !errors.Is(err, boom) || f.Started() != 0 {
			t.Errorf("%v, %d machines", err, f.Started())
		}
		assertNothingLeft(t, spec)
	})
	t.Run("hangs", func(t *testing.T) {
		f := &Fake{Guest: SilentGuest}
		m, spec := startFake(t, f)
		if err := m.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		assertNothingLeft(t, spec)
	})
	t.Run("dies", func(t *testing.T) {
		f := &Fake{}
		m, spec := startFake(t, f)
		f.Die(m.Record().UUID)
		<-m.Done()
		if e, ok := <-m.Events(); ok {
			t.Errorf("event %+v", e)
		}
		assertNothingLeft(t, spec)
	})
	t.Run("panics", func(t *testing.T) {
		m, _ := startFake(t, &Fake{Guest: func(ctx context.Context, g *Guest) { g.Panic() }})
		if e := <-m.Events(); e.Kind != vm.GuestPanic {
			t.Errorf("event %+v", e)
		}
		<-m.Done()
	})
	t.Run("disk is full", func(t *testing.T) {
		m, _ := startFake(t, &Fake{Guest: func(ctx context.Context, g *Guest) {
			g.DiskFull()
			_, _ = g.Serial(ctx).Write([]byte("there is room again"))
		}})
		if e := <-m.Events(); e.Kind != vm.HostDiskFull {
			t.Errorf("event %+v", e)
		}
		if err := m.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !collect(m.Serial()).wait("room again", time.Minute) {
			t.Error("the guest does not go on")
		}
		if err := m.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("daemon dies", func(t *testing.T) {
		f := &Fake{}
		m, spec := startFake(t, f)
		f.Disconnect()
		if _, err := m.NIC().Read(nil); err == nil {
			t.Error("the old daemon still has the card")
		}
		if n := len(f.Running()); n != 1 {
			t.Fatalf("%d machines run", n)
		}
		next, err := f.Adopt(t.Context(), spec, m.Record())
		if err != nil {
			t.Fatal(err)
		}
		if err := next.Kill(t.Context()); err != nil {
			t.Fatal(err)
		}
		assertNothingLeft(t, spec)
	})
}
