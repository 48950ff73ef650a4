// Package e2e drives the built binaries on real machines: the real CLI, the real daemon, QEMU, and a
// guest booted from a real base image. `make test` builds what it needs and runs it; by itself it
// skips unless BROMURE_TEST_IMAGE names the directory of an image.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/vm"
)

// patience bounds every single command. It only says when a test has hung: nothing waits this long.
const patience = 4 * time.Minute

// install is one data root with the binaries that use it, as a user has it.
type install struct {
	t    *testing.T
	bin  string // directory of bromure-cli
	root string
	env  []string
	as   *syscall.Credential // nil: the user who runs the tests
}

// newInstall makes an empty data root with the test image in it. When the test ends, its machines and its
// daemon are stopped.
func newInstall(t *testing.T, opts ...func(*install)) *install {
	t.Helper()
	image := testImage(t)
	dir, err := os.MkdirTemp("", "brm-e2e-")
	if err != nil {
		t.Fatal(err)
	}
	i := &install{t: t, bin: binDir(t), root: filepath.Join(dir, "root")}
	for _, o := range opts {
		o(i)
	}
	i.env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LANG=C.UTF-8", "TERM=xterm-256color",
		"BROMURE_HOME=" + i.root, "XDG_RUNTIME_DIR=" + filepath.Join(dir, "run"),
	}, i.env...)
	for _, d := range []string{i.root, filepath.Join(dir, "run"), filepath.Join(i.root, "images")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	i.addImage(image)
	if i.as != nil {
		i.handOver(dir)
	}
	t.Cleanup(func() {
		if t.Failed() {
			i.dump()
		}
		i.run(nil, "daemon", "stop", "--machines")
		i.killLeftovers()
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	return i
}

// testImage is the directory of the base image that the tests boot.
func testImage(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("BROMURE_TEST_IMAGE")
	if dir == "" {
		t.Skip("BROMURE_TEST_IMAGE is not set: `make test` builds an image and sets it")
	}
	if _, err := os.Stat(layout.ImageDir(dir).Manifest()); err != nil {
		t.Fatalf("BROMURE_TEST_IMAGE: %v", err)
	}
	if runtime.GOOS != "linux" {
		t.Skip("these tests know the processes of QEMU on Linux")
	}
	if _, err := exec.LookPath("qemu-system-" + map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]); err != nil {
		t.Skipf("no QEMU: %v", err)
	}
	return dir
}

func binDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../bin")
	if err != nil {
		t.Fatal(err)
	}
	if d := os.Getenv("BROMURE_TEST_BIN"); d != "" {
		dir = d
	}
	if _, err := os.Stat(filepath.Join(dir, "bromure-cli")); err != nil {
		t.Fatalf("the binaries are not built (make build): %v", err)
	}
	return dir
}

// addImage puts the image into the data root: by hard links where that works, since it is never
// written, but as a copy where it is to belong to somebody else.
func (i *install) addImage(from string) {
	i.t.Helper()
	to := filepath.Join(i.root, "images", filepath.Base(from))
	if i.as == nil && exec.Command("cp", "-alT", from, to).Run() == nil {
		return
	}
	if out, err := exec.Command("cp", "-aT", "--sparse=always", from, to).CombinedOutput(); err != nil {
		i.t.Fatalf("add the image: %v: %s", err, out)
	}
}

// handOver gives everything below dir to the user that the commands run as, with binaries that this user can reach.
func (i *install) handOver(dir string) {
	i.t.Helper()
	bin := filepath.Join(dir, "bin")
	if out, err := exec.Command("cp", "-a", i.bin, bin).CombinedOutput(); err != nil {
		i.t.Fatalf("copy the binaries: %v: %s", err, out)
	}
	i.bin = bin
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, int(i.as.Uid), int(i.as.Gid))
	})
	if err != nil {
		i.t.Fatal(err)
	}
}

// result is a command that ended.
type result struct {
	stdout, stderr string
	code           int
}

// command makes a CLI command that has not begun.
func (i *install) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(i.bin, "bromure-cli"), args...)
	cmd.Env, cmd.Dir = i.env, "/"
	if i.as != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: i.as}
	}
	return cmd
}

// run runs a CLI command to its end.
func (i *install) run(stdin []byte, args ...string) result {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := i.command(ctx, args...)
	var out, errb bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &out, &errb
	err := cmd.Run()
	r := result{out.String(), errb.String(), cmd.ProcessState.ExitCode()}
	if ctx.Err() != nil {
		r.stderr += "\n(the test gave up waiting)"
	} else if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		r.stderr += "\n" + err.Error()
	}
	return r
}

// ok runs a command that must succeed and returns its output.
func (i *install) ok(args ...string) string {
	i.t.Helper()
	r := i.run(nil, args...)
	if r.code != 0 {
		i.t.Fatalf("bromure-cli %q: exit %d\nstdout: %s\nstderr: %s", args, r.code, r.stdout, r.stderr)
	}
	return r.stdout
}

// fails runs a command that must fail with that code and returns what it said.
func (i *install) fails(code int, args ...string) string {
	i.t.Helper()
	r := i.run(nil, args...)
	if r.code != code {
		i.t.Fatalf("bromure-cli %q: exit %d, want %d\nstdout: %s\nstderr: %s", args, r.code, code, r.stdout, r.stderr)
	}
	return r.stderr
}

// sh runs a shell script in a guest as its user and returns what it printed, without the last newline.
func (i *install) sh(ws, script string) string {
	i.t.Helper()
	return strings.TrimSuffix(i.ok("vm", "exec", ws, "--", "sh", "-ec", script), "\n")
}

// describe reads a workspace.
func (i *install) describe(ws string) wire.Workspace {
	i.t.Helper()
	var w wire.Workspace
	out := i.ok("workspaces", "describe", ws, "-o", "json")
	if err := json.Unmarshal([]byte(out), &w); err != nil {
		i.t.Fatalf("describe: %v in %s", err, out)
	}
	return w
}

// waitState waits until a workspace is in that state.
func (i *install) waitState(ws string, want vm.State) wire.Workspace {
	i.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		w := i.describe(ws)
		if w.State == want {
			return w
		}
		if time.Now().After(deadline) {
			i.t.Fatalf("%s is %s, not %s", ws, w.State, want)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// qemus lists the process IDs of the QEMUs that belong to this data root, by the images that they have open.
func (i *install) qemus() []int {
	var pids []int
	comms, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, c := range comms {
		name, _ := os.ReadFile(c)
		if !strings.HasPrefix(string(name), "qemu-system") {
			continue
		}
		args, _ := os.ReadFile(filepath.Join(filepath.Dir(c), "cmdline"))
		if bytes.Contains(args, []byte(i.root)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(c)))
			pids = append(pids, pid)
		}
	}
	return pids
}

func (i *install) daemonPID() int {
	i.t.Helper()
	var h wire.Health
	out := i.ok("daemon", "status", "-o", "json")
	if err := json.Unmarshal([]byte(out), &h); err != nil || h.PID == 0 {
		i.t.Fatalf("daemon status: %v in %s", err, out)
	}
	return h.PID
}

// killLeftovers ends machines that outlived their test, and reports them.
func (i *install) killLeftovers() {
	for _, pid := range i.qemus() {
		i.t.Errorf("a machine outlived its test: QEMU %d", pid)
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// dump logs what helps to understand a failure.
func (i *install) dump() {
	logs, _ := filepath.Glob(filepath.Join(i.root, "logs", "*.log"))
	more, _ := filepath.Glob(filepath.Join(i.root, "workspaces", "*", "logs", "*.log"))
	for _, p := range append(logs, more...) {
		data, _ := os.ReadFile(p)
		if len(data) > 6000 {
			data = data[len(data)-6000:]
		}
		i.t.Logf("--- %s\n%s", strings.TrimPrefix(p, i.root), data)
	}
}

// gone waits until a process has ended (a zombie counts as ended).
func gone(t *testing.T, pid int) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || bytes.Contains(data, []byte(") Z ")) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %d still runs", pid)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func kill9(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	gone(t, pid)
}
