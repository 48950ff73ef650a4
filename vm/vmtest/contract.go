package vmtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bromure.io/tui/vm"
	"bromure.io/tui/vm/console"
	"bromure.io/tui/vm/guest"
	"bromure.io/tui/vm/vmtest/echo"
)

// Contract tests what [vm.Backend] and [vm.Machine] promise. Each test gets a harness of its own.
func Contract(t *testing.T, harness func(t *testing.T) Harness) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Harness)
	}{
		{"Lifecycle", testLifecycle},
		{"PowerOff", testPowerOff},
		{"Reboot", testReboot},
		{"Lock", testLock},
		{"Pause", testPause},
		{"Flood", testFlood},
		{"Disks", Disks},
		{"KillAtOnce", testKillAtOnce},
		{"ReleaseAndAdopt", testReleaseAndAdopt},
		{"AdoptGone", testAdoptGone},
		{"StartFails", testStartFails},
		{"Concurrent", testConcurrent},
		{"CardClosed", testCardClosed},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, harness(t)) })
	}
}

// A machine runs when Start returns; frames flow both ways, the console speaks, and Kill ends it all.
func testLifecycle(t *testing.T, h Harness) {
	caps, err := h.Backend.Capabilities(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if caps.Accelerator == "" || caps.Why == "" || caps.Version == "" || len(caps.Formats) == 0 {
		t.Errorf("capabilities are incomplete: %+v", caps)
	}
	tr := h.start(t)
	rec := tr.m.Record()
	if rec.Backend != h.Backend.Name() || rec.UUID != tr.spec.Workspace.ID.UUID() || rec.Started.IsZero() ||
		rec.Accelerator != tr.spec.Accelerator {
		t.Errorf("record %+v", rec)
	}
	select {
	case <-tr.m.Done():
		t.Fatal("a running machine is done")
	default:
	}
	// A frame of the greatest size, each way.
	big := strings.Repeat("0123456789abcdef", guest.MTU/16-1)
	tr.ask(echo.Echo, big) // returns when it has come back whole
	tr.send(echo.Print, "a line from the guest")
	tr.waitSerial("a line from the guest")
	tr.kill()
	if !tr.serial.waitEnd(h.patience()) {
		t.Error("the console does not end with the machine")
	}
	for range tr.frames { // ends
	}
	if e, ok := <-tr.m.Events(); ok {
		t.Errorf("killing is no event of the guest: %+v", e)
	}
	for name, op := range map[string]func(context.Context) error{
		"pause": tr.m.Pause, "resume": tr.m.Resume, "reset": tr.m.Reset,
	} {
		if err := op(t.Context()); !errors.Is(err, vm.ErrGone) {
			t.Errorf("%s of a machine that is gone: %v", name, err)
		}
	}
	tr.kill() // again
	if err := tr.m.Release(); err != nil {
		t.Errorf("release of a machine that is gone: %v", err)
	}
}

func testPowerOff(t *testing.T, h Harness) {
	tr := h.start(t)
	tr.send(echo.PowerOff, "")
	tr.waitEvent(vm.GuestPowerOff)
	tr.waitDone()
	if e, ok := <-tr.m.Events(); ok {
		t.Errorf("one more event: %+v", e)
	}
	if !tr.serial.waitEnd(h.patience()) {
		t.Error("the console does not end with the machine")
	}
	assertNothingLeft(t, tr.spec)
}

// A guest that restarts itself keeps its machine, and so it does when the host resets it.
func testReboot(t *testing.T, h Harness) {
	tr := h.start(t)
	first := tr.ask(echo.Boot, "")
	tr.send(echo.Reboot, "")
	tr.waitEvent(vm.GuestReset)
	tr.waitSerial(guest.ProbeMarker)
	second := tr.ask(echo.Boot, "")
	if second == first || second == "" {
		t.Errorf("boot %q follows boot %q", second, first)
	}
	if err := tr.m.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	tr.waitSerial(guest.ProbeMarker)
	if third := tr.ask(echo.Boot, ""); third == second {
		t.Error("the guest did not start again")
	}
	tr.kill()
	if e, ok := <-tr.m.Events(); ok {
		t.Errorf("what the host did is no event of the guest: %+v", e)
	}
}

// The machine holds the lock, whatever the caller does with its own descriptor.
func testLock(t *testing.T, h Harness) {
	tr := h.start(t)
	second := tr.spec
	var err error
	if second.Lock, err = os.Open(tr.spec.Lock.Name()); err != nil {
		t.Fatal(err)
	}
	defer second.Lock.Close()
	if m, err := h.Backend.Start(t.Context(), second); !errors.Is(err, vm.ErrLocked) {
		if err == nil {
			_ = m.Kill(t.Context())
		}
		t.Errorf("a second machine of the workspace: %v", err)
	}
	if _, err := h.Backend.Start(t.Context(), tr.spec); err == nil {
		t.Error("a second machine with the same descriptor")
	}
	_ = tr.spec.Lock.Close()
	if lockFree(t, tr.spec) {
		t.Error("the machine does not hold the lock")
	}
	tr.reach("undisturbed")
	tr.kill()
}

// While CPUs stand still nothing is answered; what was asked meanwhile is answered later.
func testPause(t *testing.T, h Harness) {
	tr := h.start(t)
	for range 2 { // twice is as good as once
		if err := tr.m.Pause(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for drained := false; !drained; { // what was on its way
		select {
		case <-tr.frames:
		default:
			drained = true
		}
	}
	tr.send(echo.Echo, "are you there?")
	select {
	case f := <-tr.frames:
		if _, data, _ := echo.Parse(f); strings.HasPrefix(string(data), "are you there?") {
			t.Error("a paused guest answers")
		}
	case <-time.After(200 * time.Millisecond): // can only hide a fault, never make one
	}
	for range 2 {
		if err := tr.m.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	tr.reach("are you there?")
	tr.kill()
}

// floodSize is more than what waits for a reader who is not there, in bytes.
const floodSize = 3 * console.Size

// A guest that prints more than anybody reads is not held up, and its last words are kept.
func testFlood(t *testing.T, h Harness) {
	spec := h.spec(t)
	m, err := h.Backend.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	tr := h.attach(t, spec, m)
	tr.reach("up")
	tr.ask(echo.Flood, fmt.Sprint(floodSize))
	tr.serial = collect(m.Serial())
	tr.waitSerial(echo.FloodEnd)
	if n := tr.serial.count(); n >= floodSize {
		t.Errorf("%d bytes were kept for a reader who was not there", n)
	}
	tr.kill()
}

// Disks is the part of the contract that depends on the disk's format: the guest finds its disks by
// their serials and can write to them, and the base stays as it is.
func Disks(t *testing.T, h Harness) {
	tr := h.start(t)
	want := map[string]string{vm.DiskSerial: tr.spec.Disk, vm.HomeSerial: tr.spec.Home}
	lines := strings.Fields(strings.ReplaceAll(strings.TrimSpace(tr.ask(echo.Disks, "")), " ", "/"))
	for _, l := range lines {
		serial, rest, _ := strings.Cut(l, "/")
		path, ok := want[serial]
		if !ok || path == "" {
			t.Errorf("the guest sees a disk %q that it should not", l)
			continue
		}
		delete(want, serial)
		if !strings.HasSuffix(rest, "/rw") {
			t.Errorf("disk %q cannot be written", l)
		}
		if serial == vm.HomeSerial || tr.spec.Workspace.DiskFormat == vm.Raw {
			fi, err := os.Stat(path)
			if err != nil || rest != fmt.Sprintf("%d/rw", fi.Size()) {
				t.Errorf("the guest sees %q, the file has %d bytes (%v)", l, fi.Size(), err)
			}
		}
		if msg := tr.ask(echo.Write, serial+"\x00written by the guest"); msg != "" {
			t.Errorf("write to %s: %s", serial, msg)
		}
	}
	for serial, path := range want {
		if path != "" {
			t.Errorf("the guest does not see the disk %s", serial)
		}
	}
	tr.kill()
	for _, path := range []string{tr.spec.Disk, tr.spec.Home} {
		if path != "" && !contains(t, path, "written by the guest") {
			t.Errorf("what the guest wrote and flushed is not in %s", filepath.Base(path))
		}
	}
	if tr.spec.Backing != "" && contains(t, tr.spec.Backing, "written by the guest") {
		t.Error("the guest wrote to the base")
	}
}

// contains looks in the first few megabytes of a file, where tests write.
func contains(t *testing.T, path, what string) bool {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 8<<20))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Contains(data, []byte(what))
}

// Kill works at any time, from many callers at once.
func testKillAtOnce(t *testing.T, h Harness) {
	spec := h.spec(t)
	m, err := h.Backend.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	tr := h.attach(t, spec, m)
	if err := m.Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if err := m.Kill(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	tr.kill()
}

// Every method may be called at any time, by many at once (run with -race).
func testConcurrent(t *testing.T, h Harness) {
	tr := h.start(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				err := errors.Join(tr.m.Pause(t.Context()), tr.m.Resume(t.Context()))
				if err != nil {
					if !errors.Is(err, vm.ErrGone) {
						t.Error(err)
					}
					return
				}
			}
		})
		wg.Go(func() {
			for {
				if _, err := tr.m.NIC().Write(echo.Request(echo.Echo, []byte("x"))); err != nil {
					return
				}
				_ = tr.m.Record()
			}
		})
	}
	tr.reach("through all of it")
	wg.Go(func() {
		if err := tr.m.Kill(t.Context()); err != nil {
			t.Error(err)
		}
	})
	wg.Wait()
	tr.kill()
}
