package build

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestLeashLetsThrough(t *testing.T) {
	for code, arg := range []string{"0", "1", "2"} {
		var out, errs strings.Builder
		l, err := onLeash(context.Background(), &errs, "/bin/sh", "-c", `echo "$1"; echo err >&2; exit $2`, "x", "a  b", arg)
		if err != nil {
			t.Fatal(err)
		}
		l.Stdout = &out
		err = l.run()
		var exit *exec.ExitError
		if errors.As(err, &exit) && exit.ExitCode() != code || err == nil && code != 0 || out.String() != "a  b\n" || errs.String() != "err\n" {
			t.Errorf("exit %d: %v, %q, %q", code, err, out.String(), errs.String())
		}
	}
}

// stubborn is like mmdebstrap: it ignores SIGTERM while its part works and cleans up after it. It holds a witness open until
// its end, where there is one.
const stubborn = `test ! -e "$1/witness" || exec 5>"$1/witness"; mkdir "$1/tree"; trap : TERM; sh -c 'trap "exit 1" TERM; echo ready; while :; do read -r _ <"$1/never" || exit 1; done' part "$1"; wait; echo cleaning up >&2; rmdir "$1/tree"`

// runStubborn runs it and tells when it works.
func runStubborn(t *testing.T, ctx context.Context, dir string, works func()) error {
	t.Helper()
	l, err := onLeash(ctx, io.Discard, "/bin/sh", "-c", stubborn, "x", dir)
	if err != nil {
		t.Fatal(err)
	}
	l.Stdout = writerFunc(works)
	return l.run()
}

type writerFunc func()

func (f writerFunc) Write(p []byte) (int, error) { f(); return len(p), nil }

func fifo(t *testing.T, name string) {
	t.Helper()
	if out, err := exec.Command("mkfifo", name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func TestLeashCancel(t *testing.T) {
	dir := t.TempDir()
	fifo(t, filepath.Join(dir, "never"))
	ctx, cancel := context.WithCancel(context.Background())
	err := runStubborn(t, ctx, dir, cancel)
	if err == nil {
		t.Error("a cancelled command ended well")
	}
	if _, err := os.Stat(filepath.Join(dir, "tree")); !os.IsNotExist(err) {
		t.Errorf("it did not clean up: %v", err)
	}
}

// TestLeashKill kills the process that holds the leash.
func TestLeashKill(t *testing.T) {
	if dir := os.Getenv("BROMURE_TEST_LEASH"); dir != "" {
		p, _ := os.FindProcess(os.Getpid())
		_ = runStubborn(t, context.Background(), dir, func() { _ = p.Kill() })
		return
	}
	dir := t.TempDir()
	fifo(t, filepath.Join(dir, "never"))
	fifo(t, filepath.Join(dir, "witness"))
	holder := exec.Command(os.Args[0], "-test.run=^TestLeashKill$")
	holder.Env = append(os.Environ(), "BROMURE_TEST_LEASH="+dir)
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	witness, err := os.Open(filepath.Join(dir, "witness"))
	if err != nil {
		t.Fatal(err)
	}
	defer witness.Close()
	if err := holder.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the holder ended with %v", err)
	}
	if _, err := io.Copy(io.Discard, witness); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "tree")); !os.IsNotExist(err) {
		t.Errorf("it did not clean up: %v", err)
	}
}
