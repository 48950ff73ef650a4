package qemu

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
)

// sleeper is a process that has nothing to do with us.
func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

// alive fails when something has ended the sleeper.
func alive(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if state, _, err := hostProc.stat(cmd.Process.Pid); err != nil || state == 'Z' {
		t.Errorf("the unrelated process is gone: state %c, %v", state, err)
	}
}

// F71: the process ID in the record belongs to another process by now, sockets are left over.
func TestAdoptNeverTakesAnotherProcess(t *testing.T) {
	boot, err := hostProc.bootID()
	if err != nil {
		t.Fatal(err)
	}
	stranger := sleeper(t)
	pid := stranger.Process.Pid
	_, ticks, err := hostProc.stat(pid)
	if err != nil {
		t.Fatal(err)
	}
	exe, err := hostProc.executable(pid)
	if err != nil {
		t.Fatal(err)
	}
	spec := tinySpec(t, "/none")
	stale(t, spec.Dir.QMP(), "unix")
	stale(t, spec.Dir.Serial(), "unix")
	stale(t, spec.Dir.NetHost(), "unixgram")
	stale(t, spec.Dir.NetGuest(), "unixgram")
	good := vm.Record{Backend: backendName, PID: pid, BootID: boot, StartTicks: ticks, Executable: exe, UUID: spec.Workspace.ID.UUID()}
	for name, change := range map[string]func(*vm.Record){
		"reused process ID":      func(r *vm.Record) { r.StartTicks-- },
		"before a restart":       func(r *vm.Record) { r.BootID = "earlier" },
		"another program":        func(r *vm.Record) { r.Executable = "/usr/bin/qemu-system-x86_64" },
		"all right but the UUID": func(r *vm.Record) {},
		"init":                   func(r *vm.Record) { r.PID = 1 },
		"kernel thread":          func(r *vm.Record) { r.PID = 2 },
		"nobody":                 func(r *vm.Record) { r.PID = 1 << 22 },
	} {
		t.Run(name, func(t *testing.T) {
			rec := good
			change(&rec)
			m, err := newBackend(t).Adopt(t.Context(), spec, rec)
			if !errors.Is(err, vm.ErrGone) {
				if err == nil {
					_ = m.Release()
				}
				t.Errorf("got %v", err)
			}
			alive(t, stranger)
		})
	}
	// What is left over does not stop the next start.
	needQEMU(t)
	spec.Kernel = tinyKernel(t, "hello\n", thenHalt)
	m := start(t, newBackend(t), spec)
	waitLine(t, m.Serial(), "hello")
	alive(t, stranger)
}

// stale leaves a socket behind as a process that is killed does.
func stale(t *testing.T, path, network string) {
	t.Helper()
	typ := unix.SOCK_STREAM
	if network == "unixgram" {
		typ = unix.SOCK_DGRAM
	}
	fd, err := unix.Socket(unix.AF_UNIX, typ|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		t.Fatal(err)
	}
}

// A live socket is never taken away from whoever listens on it.
func TestSocketClash(t *testing.T) {
	for _, name := range []string{"qmp", "serial", "nh", "ng"} {
		t.Run(name, func(t *testing.T) {
			spec := tinySpec(t, "/bin/sh")
			path := map[string]string{
				"qmp": spec.Dir.QMP(), "serial": spec.Dir.Serial(), "nh": spec.Dir.NetHost(), "ng": spec.Dir.NetGuest(),
			}[name]
			if strings.HasPrefix(name, "n") {
				c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
			} else {
				l, err := net.Listen("unix", path)
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
			}
			needQEMU(t)
			_, err := newBackend(t).Start(t.Context(), spec)
			if problem.KindOf(err) != problem.Refused || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v", err)
			}
			left, _ := os.ReadDir(string(spec.Dir))
			if len(left) != 1 || left[0].Name() != name {
				t.Errorf("in the directory: %v", left)
			}
		})
	}
}

func TestAdopt(t *testing.T) {
	needQEMU(t)
	spec := tinySpec(t, tinyKernel(t, "tick\n", thenAgain))
	first := start(t, newBackend(t), spec)
	rec := first.Record()
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	if err := first.Pause(t.Context()); !errors.Is(err, errReleased) {
		t.Errorf("pause after release: %v", err)
	}
	m, err := newBackend(t).Adopt(t.Context(), spec, rec)
	if err != nil {
		t.Fatal(err)
	}
	waitLine(t, m.Serial(), "tick")
	if err := m.Reset(t.Context()); err != nil {
		t.Error(err)
	}
	waitLine(t, m.Serial(), "tick")
	kill(t, m)
	kill(t, m)
	waitDone(t, m)
	assertNothingLeft(t, spec)
}

// A QEMU whose main loop hangs is still ours to kill, and to nothing else.
func TestAdoptHungQEMU(t *testing.T) {
	needQEMU(t)
	spec := tinySpec(t, tinyKernel(t, "hello\n", thenHalt))
	first := start(t, newBackend(t), spec)
	rec := first.Record()
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(rec.PID, unix.SIGSTOP); err != nil { // our own child: it was started above
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	m, err := newBackend(t).Adopt(ctx, spec, rec)
	if err != nil {
		t.Fatal(err)
	}
	err = m.Pause(t.Context())
	if err == nil || errors.Is(err, vm.ErrGone) || !strings.Contains(problem.HintOf(err), "kill") {
		t.Errorf("pause: %v, hint %q", err, problem.HintOf(err))
	}
	kill(t, m)
	if n, err := m.Serial().Read(make([]byte, 10)); err == nil {
		t.Errorf("the console of a dead machine gives %d bytes", n)
	}
	assertNothingLeft(t, spec)
}

// Another machine answers at the socket.
func TestAdoptChecksWhoAnswers(t *testing.T) {
	needQEMU(t)
	kernel := tinyKernel(t, "hello\n", thenHalt)
	spec, other := tinySpec(t, kernel), tinySpec(t, kernel)
	first, second := start(t, newBackend(t), spec), start(t, newBackend(t), other)
	rec := first.Record()
	if err := errors.Join(first.Release(), second.Release()); err != nil {
		t.Fatal(err)
	}
	for _, p := range [][2]string{{other.Dir.QMP(), spec.Dir.QMP()}, {other.Dir.Serial(), spec.Dir.Serial()}} {
		if err := os.Rename(p[0], p[1]); err != nil {
			t.Fatal(err)
		}
	}
	m, err := newBackend(t).Adopt(t.Context(), spec, rec)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Pause(t.Context()); err == nil || !strings.Contains(err.Error(), "another machine") {
		t.Errorf("pause: %v", err)
	}
	kill(t, m)
	proc, err := openProcess(second.Record().PID)
	if err != nil {
		t.Fatalf("the other machine: %v", err)
	}
	defer proc.close()
	if proc.gone() {
		t.Error("the other machine was killed")
	}
	if err := proc.kill(); err != nil {
		t.Error(err)
	}
	if err := proc.wait(); err != nil {
		t.Error(err)
	}
}

// A machine that ends while nobody is there is noticed at the next adoption.
func TestAdoptAfterKill9(t *testing.T) {
	needQEMU(t)
	spec := tinySpec(t, tinyKernel(t, "hello\n", thenHalt))
	b := newBackend(t)
	m := start(t, b, spec)
	waitLine(t, m.Serial(), "hello")
	if err := unix.Kill(m.Record().PID, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	waitDone(t, m)
	if e, ok := <-m.Events(); ok {
		t.Errorf("event %+v", e)
	}
	if _, err := b.Adopt(t.Context(), spec, m.Record()); !errors.Is(err, vm.ErrGone) {
		t.Errorf("got %v", err)
	}
	assertNothingLeft(t, spec)
}

// A daemon that dies between starting QEMU and writing the record leaves a machine that only its
// own marks can name.
func TestFind(t *testing.T) {
	needQEMU(t)
	spec := tinySpec(t, tinyKernel(t, "hello\n", thenHalt))
	b := newBackend(t)
	if _, err := b.Find(spec.Workspace.ID, spec.Lock.Name()); !errors.Is(err, vm.ErrGone) {
		t.Errorf("before the start: %v", err)
	}
	m := start(t, b, spec)
	rec, err := b.Find(spec.Workspace.ID, spec.Lock.Name())
	want := m.Record()
	want.Started = time.Time{}
	if err != nil || rec != want {
		t.Errorf("found %+v, %v; want %+v", rec, err, want)
	}
	other := tinySpec(t, "/none")
	if _, err := b.Find(spec.Workspace.ID, other.Lock.Name()); !errors.Is(err, vm.ErrGone) {
		t.Errorf("with another lock: %v", err)
	}
	if err := m.Release(); err != nil {
		t.Fatal(err)
	}
	again, err := b.Adopt(t.Context(), spec, rec)
	if err != nil {
		t.Fatal(err)
	}
	kill(t, again)
	if _, err := b.Find(spec.Workspace.ID, spec.Lock.Name()); !errors.Is(err, vm.ErrGone) {
		t.Errorf("after the end: %v", err)
	}
}

func TestParseStat(t *testing.T) {
	const tail = " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21\n"
	for in, want := range map[string]uint64{
		"7 (sleep)" + tail:                    4711,
		"7 (a) R 1 (b) b)" + tail:             4711,
		"7 ((sd-pam) x)" + tail:               4711,
		"7 (sleep) S 1 2":                     0,
		"7 sleep S":                           0,
		"":                                    0,
		"7 (x) S" + strings.Repeat(" -1", 30): 0,
		"7 (x) S" + strings.Repeat(" 99999999999999999999999", 30): 0,
	} {
		_, got, err := parseStat([]byte(in))
		if got != want || (err == nil) != (want != 0) {
			t.Errorf("%q: %d, %v", in, got, err)
		}
	}
}
