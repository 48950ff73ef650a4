package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"bromure.io/tui/vm"
)

// TestDaemonDies: a machine outlives its daemon, however that ends, and the next one adopts it.
func TestDaemonDies(t *testing.T) {
	i := newInstall(t)
	i.ok("workspaces", "create", "--name", "w", "--memory", "0.5")
	i.ok("vm", "run", "-d", "w")
	first := i.sh("w", "cat /proc/sys/kernel/random/boot_id; echo $$ > /dev/null")
	machine := i.qemus()

	kill9(t, i.daemonPID())
	if again := i.qemus(); fmt.Sprint(again) != fmt.Sprint(machine) {
		t.Fatalf("QEMU before %v, after the daemon was killed %v", machine, again)
	}
	i.waitState("w", vm.Running) // starts a daemon
	if got := i.sh("w", "cat /proc/sys/kernel/random/boot_id"); got != first {
		t.Errorf("another boot after adoption: %s, was %s", got, first)
	}
	i.fails(4, "vm", "run", "-d", "w")

	// An orderly leave does the same.
	pid := i.daemonPID()
	i.ok("daemon", "stop")
	gone(t, pid)
	if again := i.qemus(); fmt.Sprint(again) != fmt.Sprint(machine) {
		t.Fatalf("QEMU before %v, after daemon stop %v", machine, again)
	}
	i.waitState("w", vm.Running)

	// SIGTERM too.
	pid = i.daemonPID()
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	gone(t, pid)
	i.waitState("w", vm.Running)
	if got := i.sh("w", "cat /proc/sys/kernel/random/boot_id"); got != first {
		t.Errorf("another boot after the second adoption: %s, was %s", got, first)
	}

	// An adopted machine can be stopped in good order, and `daemon stop --machines` does so.
	i.ok("daemon", "stop", "--machines")
	if pids := i.qemus(); len(pids) != 0 {
		t.Errorf("machines after daemon stop --machines: %v", pids)
	}
	if w := i.describe("w"); w.State != vm.Off || w.Failure != nil {
		t.Errorf("state %s, failure %+v", w.State, w.Failure)
	}
}

// TestMachineDies: a machine that is killed is noticed, said, and can be started again with its files.
func TestMachineDies(t *testing.T) {
	i := newInstall(t)
	i.ok("workspaces", "create", "--name", "w", "--memory", "0.5")
	i.ok("vm", "run", "-d", "w")
	i.sh("w", "echo kept > ~/file; sync")
	kill9(t, i.qemus()[0])
	if w := i.waitState("w", vm.Broken); w.Failure == nil || w.Failure.Hint == "" {
		t.Errorf("failure %+v", w.Failure)
	}
	if got := i.ok("vm", "run", "w", "--", "sh", "-c", "cat ~/file"); got != "kept\n" {
		t.Errorf("after the crash: %q", got)
	}

	// Both at once: the record names a machine that is gone, and perhaps a stranger's process by now (F71).
	daemon, machine := i.daemonPID(), i.qemus()[0]
	kill9(t, daemon)
	kill9(t, machine)
	stranger := exec.Command("sleep", "1000")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stranger.Process.Kill(); _ = stranger.Wait() }()
	states, _ := filepath.Glob(filepath.Join(i.root, "workspaces", "*", "state.json"))
	if len(states) != 1 {
		t.Fatalf("state files: %v", states)
	}
	data, err := os.ReadFile(states[0])
	if err != nil {
		t.Fatal(err)
	}
	forged := strings.Replace(string(data), fmt.Sprintf(`"pid": %d`, machine), fmt.Sprintf(`"pid": %d`, stranger.Process.Pid), 1)
	if forged == string(data) {
		t.Fatalf("no process ID to forge in %s", data)
	}
	if err := os.WriteFile(states[0], []byte(forged), 0o600); err != nil {
		t.Fatal(err)
	}
	if w := i.describe("w"); w.State != vm.Off && w.State != vm.Broken {
		t.Errorf("state %s", w.State)
	}
	i.fails(4, "vm", "kill", "w")
	if got := i.ok("vm", "run", "w", "--", "cat", "file"); got != "kept\n" {
		t.Errorf("after both crashes: %q", got)
	}
	i.ok("vm", "kill", "w")
	if err := stranger.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("a process that is none of ours was ended: %v", err)
	}
}

// TestGuestNeverAnswers: the start is given up at its deadline, the step is named, and nothing is left.
func TestGuestNeverAnswers(t *testing.T) {
	i := newInstall(t, func(i *install) { i.env = append(i.env, "BROMURE_BOOT_DEADLINE=4s") })
	i.ok("workspaces", "create", "--name", "w", "--memory", "0.5")
	frozen := make(chan int)
	go func() { // a machine that is stopped from outside hangs as one whose kernel does
		for {
			states, _ := filepath.Glob(filepath.Join(i.root, "workspaces", "*", "state.json"))
			if len(states) > 0 { // the machine runs and is recorded
				pid := i.qemus()[0]
				_ = syscall.Kill(pid, syscall.SIGSTOP)
				frozen <- pid
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	msg := i.fails(1, "vm", "run", "-d", "w")
	pid := <-frozen
	if !strings.Contains(msg, "4s") {
		t.Errorf("the message does not name the deadline: %s", msg)
	}
	w := i.describe("w")
	if w.State != vm.Broken || w.Failure == nil || w.Failure.Step == "" || w.Failure.Hint == "" {
		t.Errorf("state %s, failure %+v", w.State, w.Failure)
	}
	gone(t, pid)
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(i.root), "run", "bromure", "*", "m", "*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// TestBadDisk: a system disk that holds no file system is a clear failure of that step.
func TestBadDisk(t *testing.T) {
	i := newInstall(t)
	i.ok("workspaces", "create", "--name", "w", "--memory", "0.5")
	i.ok("vm", "run", "-d", "w")
	i.ok("vm", "stop", "w")
	w := i.describe("w")
	// qemu-io writes through the disk's own format, raw or overlay.
	out, err := exec.Command("qemu-io", "-f", string(w.DiskFormat), "-c", "write -z 0 2M", filepath.Join(w.Dir, "disk.img")).CombinedOutput()
	if err != nil {
		t.Fatalf("damage the disk: %v: %s", err, out)
	}
	i.fails(1, "vm", "run", "-d", "w")
	if w := i.describe("w"); w.State != vm.Broken || w.Failure.Step != "disks" {
		t.Errorf("state %s, failure %+v", w.State, w.Failure)
	}
}
