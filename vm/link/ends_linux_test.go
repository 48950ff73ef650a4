package link_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"bromure.io/tui/vm/guest"
	"bromure.io/tui/vm/link"
)

func TestLargeStreams(t *testing.T) {
	l := connect(t, serve(t))
	data := make([]byte, 10<<20)
	for i := range data {
		data[i] = byte(i * 2654435761 >> 13)
	}
	s, err := l.Exec(t.Context(), guest.Exec{Argv: []string{"cat"}})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = s.Stdin.Write(data)
		_ = s.Stdin.Close()
	}()
	got, err := io.ReadAll(s.Stdout)
	if err != nil || sha256.Sum256(got) != sha256.Sum256(data) {
		t.Errorf("%d of %d bytes came back, %v", len(got), len(data), err)
	}
	if exit, err := s.Wait(); err != nil || exit.Code != 0 {
		t.Errorf("exit %+v, %v", exit, err)
	}
}

// A program that prints without end is held by who reads, not buffered, and it ends when the session does.
func TestBackPressureAndClose(t *testing.T) {
	g := serve(t)
	l := connect(t, g)
	s, err := l.Exec(t.Context(), sh("echo $$; exec cat /dev/zero"))
	if err != nil {
		t.Fatal(err)
	}
	pid := readPID(t, s.Stdout)
	s.Close()
	waitGone(t, pid)
	if _, err := s.Wait(); !errors.Is(err, link.ErrClosed) {
		t.Errorf("wait: %v", err)
	}
}

// The client vanishes without a word; what it ran ends, also where it does not want to.
func TestVanishedClientEndsPrograms(t *testing.T) {
	g := serve(t)
	l := connect(t, g)
	s, err := l.Exec(t.Context(), sh("nohup sleep 1000 >/dev/null 2>&1 & echo $!; sleep 1000 & echo $!; echo $$; wait; wait"))
	if err != nil {
		t.Fatal(err)
	}
	spared, child, leader := readPID(t, s.Stdout), readPID(t, s.Stdout), readPID(t, s.Stdout)
	t.Cleanup(func() { _ = syscall.Kill(spared, syscall.SIGKILL) })
	l.Close()
	waitGone(t, child)
	waitGone(t, leader)
	if err := syscall.Kill(spared, 0); err != nil {
		t.Errorf("what nohup started is gone too: %v", err)
	}
}

func TestStubbornProgramIsKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("takes the grace of a hangup, 5 s")
	}
	t.Parallel()
	g := serve(t)
	l := connect(t, g)
	s, err := l.Exec(t.Context(), sh(`trap "" HUP TERM; echo $$; while :; do sleep 0.2; done`))
	if err != nil {
		t.Fatal(err)
	}
	pid := readPID(t, s.Stdout)
	s.Close()
	waitGone(t, pid)
}

// What a program leaves behind may hold its pipes; the exit does not wait for it.
func TestLeftoversDoNotHang(t *testing.T) {
	l := connect(t, serve(t))
	start := time.Now()
	out, _, exit, err := run(t, l, sh("echo begin; sleep 1000 & echo $!; exit 5"), "")
	if err != nil || exit.Code != 5 || !strings.HasPrefix(out, "begin\n") {
		t.Fatalf("%q, %+v, %v", out, exit, err)
	}
	pid, err := strconv.Atoi(strings.Fields(out)[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Errorf("the leftover did not live on: %v", err)
	}
	if d := time.Since(start); d > 10*time.Second {
		t.Errorf("took %v", d)
	}
}

// A reader that comes late still gets everything that was printed before the end, leftovers or not: here the
// channel's window (2 MiB) is full and the rest is in the pipe when the program ends.
func TestOutputBeforeExitIsComplete(t *testing.T) {
	const size = 2<<20 + 50000
	l := connect(t, serve(t))
	s, err := l.Exec(t.Context(), sh(fmt.Sprintf("sleep 1000 & echo $! >&2; head -c %d /dev/zero; exit 6", size)))
	if err != nil {
		t.Fatal(err)
	}
	leftover := readPID(t, s.Stderr)
	t.Cleanup(func() { _ = syscall.Kill(leftover, syscall.SIGKILL) })
	time.Sleep(400 * time.Millisecond) // not to wait for something, but to be later than the server's patience of 250 ms
	n, err := io.Copy(io.Discard, s.Stdout)
	if err != nil || n != size {
		t.Errorf("%d of %d bytes, %v", n, size, err)
	}
	if exit, err := s.Wait(); err != nil || exit.Code != 6 {
		t.Errorf("exit %+v, %v", exit, err)
	}
}

// The program has closed its input: who writes is told, and the program goes on.
func TestInputClosedByProgram(t *testing.T) {
	l := connect(t, serve(t))
	s, err := l.Exec(t.Context(), sh("exec <&-; echo closed; read x </dev/zero & sleep 1000"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	expectLine(t, s.Stdout, "closed")
	for {
		if _, err := s.Stdin.Write([]byte("x")); err != nil {
			if !errors.Is(err, link.ErrInputClosed) {
				t.Error(err)
			}
			return
		}
	}
}

func BenchmarkExecTrue(b *testing.B) {
	l := connect(b, serve(b))
	for b.Loop() {
		s, err := l.Exec(b.Context(), guest.Exec{Argv: []string{"/bin/true"}})
		if err != nil {
			b.Fatal(err)
		}
		if exit, err := s.Wait(); err != nil || exit.Code != 0 {
			b.Fatal(exit, err)
		}
	}
}

func BenchmarkThroughput(b *testing.B) {
	l := connect(b, serve(b))
	const size = 8 << 20
	b.SetBytes(size)
	for b.Loop() {
		s, err := l.Exec(b.Context(), guest.Exec{Argv: []string{"head", "-c", strconv.Itoa(size), "/dev/zero"}})
		if err != nil {
			b.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, s.Stdout); err != nil || n != size {
			b.Fatal(n, err)
		}
	}
}
