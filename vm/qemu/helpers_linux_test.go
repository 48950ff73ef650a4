package qemu

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func itoa(n int) string { return strconv.Itoa(n) }

// syscallForkLock runs f while this process has no child between fork and exec, which would hold
// copies of all our descriptors for an instant.
func syscallForkLock(f func()) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	f()
}

// patience bounds waits for facts; only a failing test takes that long.
const patience = 60 * time.Second

// needQEMU skips where no machine can be started.
func needQEMU(t testing.TB) Host {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("the tiny kernels are x86 code")
	}
	h, err := findHost(runtime.GOARCH, os.Getenv("PATH"))
	if err != nil {
		t.Skipf("needs QEMU: %v", err)
	}
	h.QBoot = hasQBoot(t.Context(), h)
	return h
}

func newBackend(t testing.TB) *Backend {
	return New(Config{Getenv: os.Getenv, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
}

// tinySpec is a workspace without disks that boots kernel. Its paths hold what paths may hold.
func tinySpec(t testing.TB, kernel string) vm.Spec {
	t.Helper()
	dir := t.TempDir()
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Close() })
	// Not below t.TempDir: a socket's path is short.
	run, err := os.MkdirTemp("", "b,=\xff ")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(run) })
	return vm.Spec{
		Workspace: vm.Workspace{
			Version: vm.ConfigVersion, ID: vm.NewID(), Name: "test", MAC: vm.NewMAC(), CPUs: 1,
			MemoryMiB: vm.MinMemoryMiB, HomeMiB: vm.DefaultHomeMiB,
		},
		Accelerator: vm.Emulated,
		Kernel:      kernel,
		Dir:         layout.MachineDir(run),
		Log:         filepath.Join(dir, "machine.log"),
		Lock:        lock,
	}
}

func start(t *testing.T, b *Backend, spec vm.Spec) vm.Machine {
	t.Helper()
	m, err := b.Start(t.Context(), spec)
	if err != nil {
		t.Fatalf("%v (hint: %s)", err, problem.HintOf(err))
	}
	t.Cleanup(func() { kill(t, m) })
	return m
}

func kill(t testing.TB, m vm.Machine) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := m.Kill(ctx); err != nil && !errors.Is(err, errReleased) {
		t.Error(err)
	}
}

// readLine waits for a line that holds want.
func waitLine(t *testing.T, r io.Reader, want string) {
	t.Helper()
	found := make(chan error, 1)
	go func() {
		lines := bufio.NewScanner(r)
		for lines.Scan() {
			if strings.Contains(lines.Text(), want) {
				found <- nil
				return
			}
		}
		found <- errors.Join(io.ErrUnexpectedEOF, lines.Err())
	}()
	select {
	case err := <-found:
		if err != nil {
			t.Fatalf("wait for %q: %v", want, err)
		}
	case <-time.After(patience):
		t.Fatalf("%q did not come", want)
	}
}

func waitEvent(t *testing.T, m vm.Machine, want vm.EventKind) {
	t.Helper()
	select {
	case e, ok := <-m.Events():
		if !ok || e.Kind != want || e.At.IsZero() {
			t.Fatalf("event %+v (open: %v), want %s", e, ok, want)
		}
	case <-time.After(patience):
		t.Fatalf("no event %s", want)
	}
}

func waitDone(t *testing.T, m vm.Machine) {
	t.Helper()
	select {
	case <-m.Done():
	case <-time.After(patience):
		t.Fatal("the machine does not end")
	}
}

// assertNothingLeft says that a failed start or a dead machine has left no socket and no lock.
func assertNothingLeft(t *testing.T, spec vm.Spec) {
	t.Helper()
	left, err := os.ReadDir(string(spec.Dir))
	if err != nil || len(left) != 0 {
		t.Errorf("left in the machine's directory: %v, %v", left, err)
	}
	_ = unix.Flock(int(spec.Lock.Fd()), unix.LOCK_UN)
	if !lockFree(t, spec) {
		t.Error("the lock is held")
	}
}

// lockFree tries the lock with a descriptor of its own.
func lockFree(t *testing.T, spec vm.Spec) bool {
	t.Helper()
	f, err := os.Open(spec.Lock.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}
