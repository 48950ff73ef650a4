package qemu

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/console"
)

func TestPowerOff(t *testing.T) {
	needQEMU(t)
	spec := tinySpec(t, tinyKernel(t, "hello\n", thenPowerOff))
	m := start(t, newBackend(t), spec)
	waitLine(t, m.Serial(), "hello")
	waitEvent(t, m, vm.GuestPowerOff)
	waitDone(t, m)
	if e, ok := <-m.Events(); ok {
		t.Errorf("one more event: %+v", e)
	}
	if rest, err := io.ReadAll(m.Serial()); err != nil {
		t.Errorf("the console does not end: %q, %v", rest, err)
	}
	if _, err := m.NIC().Read(make([]byte, 100)); err != io.EOF {
		t.Errorf("the card does not end: %v", err)
	}
	if err := m.Pause(t.Context()); !errors.Is(err, vm.ErrGone) {
		t.Errorf("pause: %v", err)
	}
	assertNothingLeft(t, spec)
}

// A guest that resets itself lives on, in the same process and from the first instruction.
func TestGuestReset(t *testing.T) {
	needQEMU(t)
	m := start(t, newBackend(t), tinySpec(t, tinyKernel(t, "hello\n", thenReset)))
	waitLine(t, m.Serial(), "hello")
	waitEvent(t, m, vm.GuestReset)
	waitLine(t, m.Serial(), "hello")
	if err := m.Reset(t.Context()); err != nil {
		t.Error(err)
	}
	waitLine(t, m.Serial(), "hello")
	kill(t, m)
	if e, ok := <-m.Events(); ok {
		t.Errorf("what the host does is no event: %+v", e)
	}
}

// A guest that prints for ever neither blocks nor grows anything, read or not.
func TestFlood(t *testing.T) {
	needQEMU(t)
	spec := tinySpec(t, tinyKernel(t, strings.Repeat("x", 60)+"\n", thenAgain))
	m := start(t, newBackend(t), spec)
	c := m.(*machine).console
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for full := false; !full; <-tick.C { // nobody reads
		kept, lost := c.Waiting()
		full = lost > 0
		if kept > console.Size {
			t.Fatalf("%d bytes wait", kept)
		}
	}
	if err := m.Pause(t.Context()); err != nil { // QEMU answers all the while
		t.Fatal(err)
	}
	waitLine(t, m.Serial(), "bytes of console output were not read in time")
	if err := m.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitLine(t, m.Serial(), "xxx")
	kill(t, m)
	assertNothingLeft(t, spec)
}

func TestProcessIsConfined(t *testing.T) {
	needQEMU(t)
	stray, err := os.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer stray.Close()
	if _, err := unix.FcntlInt(stray.Fd(), unix.F_SETFD, 0); err != nil { // as if inherited from a careless parent
		t.Fatal(err)
	}
	spec := tinySpec(t, tinyKernel(t, "hello\n", thenHalt))
	m := start(t, newBackend(t), spec)
	waitLine(t, m.Serial(), "hello")
	pid := m.Record().PID
	file := func(name string) string {
		b, err := os.ReadFile(hostProc.path(itoa(pid), name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if sid, err := unix.Getsid(pid); err != nil || sid != pid {
		t.Errorf("session %d of process %d: %v", sid, pid, err)
	}
	if env := file("environ"); strings.Count(env, "\x00") != len(childEnv()) || strings.Contains(env, "HOME=") {
		t.Errorf("environment: %q", env)
	}
	if !strings.Contains(file("status"), "Seccomp:\t2") {
		t.Errorf("no seccomp filter:\n%s", file("status"))
	}
	for l := range strings.Lines(file("limits")) {
		if strings.HasPrefix(l, "Max core file size") && strings.Fields(l)[4] != "0" {
			t.Errorf("core files: %s", l)
		}
	}
	if cwd, _ := os.Readlink(hostProc.path(itoa(pid), "cwd")); cwd != "/" {
		t.Errorf("working directory %s keeps a file system busy", cwd)
	}
	fds, err := os.ReadDir(hostProc.path(itoa(pid), "fd"))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		to, _ := os.Readlink(hostProc.path(itoa(pid), "fd", fd.Name()))
		switch {
		case to == "/dev/null", to == "/dev/urandom", to == spec.Log, to == spec.Lock.Name(),
			strings.HasPrefix(to, "socket:"), strings.HasPrefix(to, "anon_inode:"), strings.HasPrefix(to, "pipe:"):
		default:
			t.Errorf("descriptor %s is %s", fd.Name(), to)
		}
	}
}

func TestLockIsHeldAsLongAsTheMachineLives(t *testing.T) {
	needQEMU(t)
	spec := tinySpec(t, tinyKernel(t, "hello\n", thenHalt))
	b := newBackend(t)
	m := start(t, b, spec)
	other := spec
	var err error
	if other.Lock, err = os.Open(spec.Lock.Name()); err != nil {
		t.Fatal(err)
	}
	defer other.Lock.Close()
	if _, err := b.Start(t.Context(), other); !errors.Is(err, vm.ErrLocked) || problem.KindOf(err) != problem.Refused {
		t.Errorf("a second start: %v", err)
	}
	// The same open file passes the lock, and stops at the sockets.
	if _, err := b.Start(t.Context(), spec); problem.KindOf(err) != problem.Refused {
		t.Errorf("a second start with the same descriptor: %v", err)
	}
	spec.Lock.Close()
	if lockFree(t, spec) {
		t.Error("the lock is free while the machine runs")
	}
	waitLine(t, m.Serial(), "hello") // and the first one was not disturbed
	kill(t, m)
	kill(t, m)
	syscallForkLock(func() {
		if !lockFree(t, spec) {
			t.Error("the lock is held after the machine's end")
		}
	})
}

func TestStartFails(t *testing.T) {
	needQEMU(t)
	kernel := tinyKernel(t, "", thenHalt)
	for name, c := range map[string]struct {
		spoil func(t *testing.T, s *vm.Spec)
		kind  problem.Kind
		words string
	}{
		"no kernel": {func(t *testing.T, s *vm.Spec) { s.Kernel += ".gone" }, problem.NotFound, "open the kernel"},
		"kernel is no kernel": {func(t *testing.T, s *vm.Spec) {
			s.Kernel = filepath.Join(t.TempDir(), "k")
			if err := os.WriteFile(s.Kernel, []byte("nonsense"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, problem.Failed, "kernel"},
		"disk is a directory": {func(t *testing.T, s *vm.Spec) { s.Disk = t.TempDir() }, problem.Failed, "not a file"},
		"overlay is raw": {func(t *testing.T, s *vm.Spec) {
			s.Disk, s.Backing = filepath.Join(t.TempDir(), "d"), kernel
			s.Workspace.DiskFormat = vm.QCOW2
			if err := os.WriteFile(s.Disk, make([]byte, 1<<16), 0o600); err != nil {
				t.Fatal(err)
			}
		}, problem.Failed, "qcow2"},
		"a file where a socket goes": {func(t *testing.T, s *vm.Spec) {
			s.Dir = layout.MachineDir(t.TempDir())
			p := s.Dir.QMP()
			if err := os.WriteFile(p, []byte("mine"), 0o600); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if b, _ := os.ReadFile(p); string(b) != "mine" {
					t.Error("the file was touched")
				}
				os.Remove(p)
			})
		}, problem.Refused, "something else"},
		"long directory": {func(t *testing.T, s *vm.Spec) {
			s.Dir = layout.MachineDir(filepath.Join(string(s.Dir), strings.Repeat("d", 100)))
			if err := os.Mkdir(string(s.Dir), 0o700); err != nil {
				t.Fatal(err)
			}
		}, problem.Missing, "limit is 107"},
		"no log":              {func(t *testing.T, s *vm.Spec) { s.Log = "/proc/none/log" }, problem.Failed, "log"},
		"unknown accelerator": {func(t *testing.T, s *vm.Spec) { s.Accelerator = vm.Apple }, problem.Failed, "apple"},
		"relative path":       {func(t *testing.T, s *vm.Spec) { s.Initrd = "initrd" }, problem.Failed, "absolute"},
		"more memory than there is": {func(t *testing.T, s *vm.Spec) { s.Workspace.MemoryMiB = vm.MaxMemoryMiB },
			"", ""}, // overcommit decides
	} {
		t.Run(name, func(t *testing.T) {
			spec := tinySpec(t, kernel)
			c.spoil(t, &spec)
			m, err := newBackend(t).Start(t.Context(), spec)
			if err == nil {
				kill(t, m)
				if c.kind != "" {
					t.Fatal("no error")
				}
				return
			}
			t.Log(err, "-- hint:", problem.HintOf(err))
			if c.kind != "" && (problem.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.words)) {
				t.Errorf("kind %s, want %s with %q", problem.KindOf(err), c.kind, c.words)
			}
			if name != "a file where a socket goes" {
				assertNothingLeft(t, spec)
			}
		})
	}
}

// Two machines of different workspaces never write to one image.
func TestImageLock(t *testing.T) {
	needQEMU(t)
	kernel := tinyKernel(t, "hello\n", thenHalt)
	disk := filepath.Join(t.TempDir(), "a,b=c\xfe.img")
	if err := os.WriteFile(disk, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	first := tinySpec(t, kernel)
	first.Disk, first.Workspace.DiskFormat = disk, vm.Raw
	m := start(t, newBackend(t), first)
	second := tinySpec(t, kernel)
	second.Home = disk
	_, err := newBackend(t).Start(t.Context(), second)
	if problem.KindOf(err) != problem.Refused || !strings.Contains(err.Error(), "another process uses one of them") {
		t.Errorf("got %v", err)
	}
	assertNothingLeft(t, second)
	waitLine(t, m.Serial(), "hello")
}

func TestStartCancelled(t *testing.T) {
	needQEMU(t)
	spec := tinySpec(t, tinyKernel(t, "", thenHalt))
	b := newBackend(t)
	if _, err := b.host(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Millisecond) // QEMU needs longer than that
	defer cancel()
	_, err := b.Start(ctx, spec)
	if !errors.Is(err, context.DeadlineExceeded) || problem.KindOf(err) != problem.DeadlineMiss {
		t.Errorf("got %v", err)
	}
	assertNothingLeft(t, spec)
}

// A program that is not QEMU and never answers.
func TestStartOfSomethingElse(t *testing.T) {
	dir := t.TempDir()
	script := "#!/bin/sh\ncase $1 in --version) echo 'QEMU emulator version 9.1.0';; *) echo boom: no such thing >&2; exit 3;; esac\n"
	if err := os.WriteFile(filepath.Join(dir, emulators[runtime.GOARCH]), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	b := New(Config{Getenv: func(string) string { return dir }})
	spec := tinySpec(t, "/bin/sh")
	_, err := b.Start(t.Context(), spec)
	if err == nil || !strings.Contains(err.Error(), "boom: no such thing") {
		t.Errorf("QEMU's words are not in %v", err)
	}
	assertNothingLeft(t, spec)
}

func TestMissingQEMU(t *testing.T) {
	b := New(Config{Getenv: func(string) string { return t.TempDir() }})
	_, err := b.Start(t.Context(), tinySpec(t, "/bin/sh"))
	if problem.KindOf(err) != problem.Missing || !strings.Contains(problem.HintOf(err), "QEMU") {
		t.Errorf("got %v, hint %q", err, problem.HintOf(err))
	}
}

func TestLogIsTruncated(t *testing.T) {
	needQEMU(t)
	spec := tinySpec(t, tinyKernel(t, "", thenHalt))
	if err := os.WriteFile(spec.Log, bytes.Repeat([]byte("old\n"), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	kill(t, start(t, newBackend(t), spec))
	if b, err := os.ReadFile(spec.Log); err != nil || bytes.Contains(b, []byte("old")) {
		t.Errorf("%q, %v", b, err)
	}
}
