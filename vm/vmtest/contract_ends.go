package vmtest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"bromure.io/tui/vm"
	"bromure.io/tui/vm/vmtest/echo"
)

// A machine that was let go of runs on, and the next daemon has all of it.
func testReleaseAndAdopt(t *testing.T, h Harness) {
	caps, err := h.Backend.Capabilities(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !caps.Survives {
		t.Skip("machines of this backend do not survive the daemon")
	}
	tr := h.start(t)
	boot := tr.ask(echo.Boot, "")
	rec := tr.m.Record()
	for range 2 {
		if err := tr.m.Release(); err != nil {
			t.Fatal(err)
		}
	}
	for range tr.frames { // ends
	}
	if !tr.serial.waitEnd(h.patience()) {
		t.Error("the console of a released machine does not end")
	}
	if _, ok := <-tr.m.Events(); ok {
		t.Error("a released machine has events")
	}
	select {
	case <-tr.m.Done():
		t.Error("a released machine counts as gone")
	default:
	}
	if err := tr.m.Kill(t.Context()); err == nil {
		t.Error("a machine can be killed by who let go of it")
	}
	_ = tr.spec.Lock.Close() // as the daemon that ends does
	if lockFree(t, tr.spec) {
		t.Fatal("the machine has lost its lock")
	}

	m, err := h.Next().Adopt(t.Context(), tr.spec, rec)
	if err != nil {
		t.Fatal(err)
	}
	next := h.attach(t, tr.spec, m)
	next.serial = collect(m.Serial())
	if got := m.Record(); got != rec {
		t.Errorf("record %+v became %+v", rec, got)
	}
	if again := next.ask(echo.Boot, ""); again != boot {
		t.Errorf("boot %q became %q", boot, again)
	}
	next.send(echo.Print, "for the new daemon")
	next.waitSerial("for the new daemon")
	if err := errors.Join(m.Pause(t.Context()), m.Resume(t.Context())); err != nil {
		t.Error(err)
	}
	next.reach("still here")
	next.send(echo.PowerOff, "")
	next.waitEvent(vm.GuestPowerOff)
	next.waitDone()
	assertNothingLeft(t, next.spec)
	if _, err := h.Next().Adopt(t.Context(), tr.spec, rec); !errors.Is(err, vm.ErrGone) {
		t.Errorf("adopting it again: %v", err)
	}
}

// A record that does not name a machine that runs gives ErrGone and touches nothing.
func testAdoptGone(t *testing.T, h Harness) {
	tr := h.start(t)
	rec := tr.m.Record()
	for name, spoil := range map[string]func(*vm.Record){
		"empty":         func(r *vm.Record) { *r = vm.Record{} },
		"other backend": func(r *vm.Record) { r.Backend = "other" },
		"other machine": func(r *vm.Record) { r.UUID = vm.NewID().UUID() },
		"other boot":    func(r *vm.Record) { r.BootID += "x" },
		"other start":   func(r *vm.Record) { r.StartTicks++ },
		"other program": func(r *vm.Record) { r.Executable += "x" },
		"this process":  func(r *vm.Record) { r.PID = os.Getpid() },
		"init":          func(r *vm.Record) { r.PID = 1 },
		"no process":    func(r *vm.Record) { r.PID = -1 },
	} {
		r := rec
		spoil(&r)
		if m, err := h.Backend.Adopt(t.Context(), tr.spec, r); !errors.Is(err, vm.ErrGone) {
			if err == nil {
				_ = m.Release()
			}
			t.Errorf("%s: %v", name, err)
		}
	}
	tr.reach("undisturbed")
	tr.kill()
	if _, err := h.Backend.Adopt(t.Context(), tr.spec, rec); !errors.Is(err, vm.ErrGone) {
		t.Errorf("after its end: %v", err)
	}
	assertNothingLeft(t, tr.spec)
}

// A start that fails leaves nothing.
func testStartFails(t *testing.T, h Harness) {
	for name, spoil := range map[string]func(*testing.T, *vm.Spec){
		"no kernel":           func(t *testing.T, s *vm.Spec) { s.Kernel = filepath.Join(t.TempDir(), "none") },
		"no initramfs":        func(t *testing.T, s *vm.Spec) { s.Initrd = filepath.Join(t.TempDir(), "none") },
		"disk is a directory": func(t *testing.T, s *vm.Spec) { s.Disk = t.TempDir() },
		"no disk":             func(t *testing.T, s *vm.Spec) { s.Disk = filepath.Join(t.TempDir(), "none") },
		"bad accelerator":     func(t *testing.T, s *vm.Spec) { s.Accelerator = "magic" },
		"no directory":        func(t *testing.T, s *vm.Spec) { s.Dir = s.Dir + "/none" },
	} {
		t.Run(name, func(t *testing.T) {
			spec := h.spec(t)
			spoil(t, &spec)
			m, err := h.Backend.Start(t.Context(), spec)
			if err == nil {
				_ = m.Kill(t.Context())
				t.Fatal("no error")
			}
			assertNothingLeft(t, spec)
		})
	}
	t.Run("cancelled", func(t *testing.T) {
		spec := h.spec(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if m, err := h.Backend.Start(ctx, spec); !errors.Is(err, context.Canceled) {
			if err == nil {
				_ = m.Kill(t.Context())
			}
			t.Errorf("got %v", err)
		}
		assertNothingLeft(t, spec)
	})
}

// A daemon that leaves closes the card first: whoever reads it is let go, and the machine goes on.
func testCardClosed(t *testing.T, h Harness) {
	tr := h.start(t)
	if err := tr.m.NIC().Close(); err != nil {
		t.Fatal(err)
	}
	for range tr.frames { // ends
	}
	if _, err := tr.m.NIC().Write(echo.Request(echo.Echo, []byte("x"))); err == nil {
		t.Error("a card that is closed takes frames")
	}
	select {
	case <-tr.m.Done():
		t.Error("the machine is gone with its card")
	default:
	}
	tr.kill()
}
