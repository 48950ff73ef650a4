package e2e

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"bromure.io/tui/vm"
)

// TestDay is the life of one workspace: made, started, used, stopped, started again with its files still there.
func TestDay(t *testing.T) {
	i := newInstall(t)
	i.ok("workspaces", "create", "--name", "api server", "--memory", "1", "--cpus", "2")
	if w := i.describe("api server"); w.State != vm.Off || w.MemoryMiB != 1024 || w.CPUs != 2 || w.MAC.Check() != nil {
		t.Fatalf("a new workspace: %+v", w)
	}

	// Start it with a command: the command's output and code come through, and the machine outlives it.
	r := i.run([]byte("from stdin\n"), "vm", "run", "API SERVER", "--", "sh", "-c", "cat; id -un; echo oops >&2; exit 7")
	if r.code != 7 || r.stdout != "from stdin\nubuntu\n" || !strings.Contains(r.stderr, "oops") {
		t.Fatalf("vm run: %+v", r)
	}
	w := i.describe("api server")
	if w.State != vm.Running || w.Started.IsZero() || w.Image == "" || w.DiskFormat == "" {
		t.Fatalf("after vm run: %+v", w)
	}
	if msg := i.fails(4, "vm", "run", "api server"); !strings.Contains(msg, "vm exec") || !strings.Contains(msg, "vm attach") {
		t.Errorf("vm run on a running workspace names no other verb: %s", msg)
	}

	// The ID and a unique prefix of it address the same workspace.
	for _, ref := range []string{string(w.ID), w.ID.Short(), string(w.ID)[:8]} {
		if got := i.sh(ref, "hostname"); got != "api-server" {
			t.Errorf("hostname by %s: %q", ref, got)
		}
	}

	i.sh("api server", "echo kept > ~/file; echo system | sudo tee /etc/mark > /dev/null")
	first := i.sh("api server", "cat /proc/sys/kernel/random/boot_id")
	i.ok("vm", "stop", "api server")
	if w := i.describe("api server"); w.State != vm.Off || w.Failure != nil {
		t.Fatalf("after vm stop: %s %+v", w.State, w.Failure)
	}
	if pids := i.qemus(); len(pids) != 0 {
		t.Fatalf("after vm stop QEMU still runs: %v", pids)
	}
	i.fails(4, "vm", "exec", "api server", "--", "true")
	i.fails(4, "vm", "stop", "api server")

	i.ok("vm", "run", "-d", "api server")
	if got := i.sh("api server", "cat ~/file /etc/mark"); got != "kept\nsystem" {
		t.Errorf("after a restart: %q", got)
	}
	if second := i.sh("api server", "cat /proc/sys/kernel/random/boot_id"); second == first {
		t.Error("the boot ID is the same after stop and start")
	}
	i.ok("vm", "kill", "api server")
	if w := i.describe("api server"); w.State != vm.Off {
		t.Errorf("after vm kill: %s %+v", w.State, w.Failure)
	}
	i.fails(3, "vm", "run", "no such")
}

// TestTwentyStarts: whatever is started at the same moment by however many processes, a workspace has one machine.
func TestTwentyStarts(t *testing.T) {
	i := newInstall(t)
	i.ok("workspaces", "create", "--name", "one", "--memory", "0.5")
	const n = 20
	results := make([]result, n)
	var wg sync.WaitGroup
	for k := range n {
		wg.Go(func() { results[k] = i.run(nil, "vm", "run", "-d", "one") })
	}
	wg.Wait()
	started, refused := 0, 0
	for _, r := range results {
		switch r.code {
		case 0:
			started++
		case 4:
			refused++
			if r.stderr == "" {
				t.Error("a refusal that says nothing")
			}
		default:
			t.Errorf("exit %d: %s", r.code, r.stderr)
		}
	}
	if started != 1 || refused != n-1 {
		t.Errorf("%d started, %d refused", started, refused)
	}
	if pids := i.qemus(); len(pids) != 1 {
		t.Errorf("QEMUs: %v", pids)
	}
}

// TestReboot: the system starts again in the same machine, by our verb and by the guest's own.
func TestReboot(t *testing.T) {
	i := newInstall(t)
	i.ok("workspaces", "create", "--name", "w", "--memory", "0.5")
	i.ok("vm", "run", "-d", "w")
	i.sh("w", "echo here > ~/file")
	bootID := func() string { return i.sh("w", "cat /proc/sys/kernel/random/boot_id") }
	pid, first := fmt.Sprint(i.qemus()), bootID()

	i.ok("vm", "reboot", "w")
	second := bootID()
	i.ok("vm", "reboot", "--hard", "w")
	third := bootID()
	if first == second || second == third {
		t.Errorf("boot IDs %s %s %s", first, second, third)
	}
	if got := i.sh("w", "cat ~/file"); got != "here" {
		t.Errorf("after reboots: %q", got)
	}
	if now := fmt.Sprint(i.qemus()); now != pid {
		t.Errorf("the machine changed from %s to %s", pid, now)
	}

	// A power-off from inside is an end in good order.
	// Before its system is up systemd takes no such order: a shell answers seconds earlier.
	i.sh("w", "until systemctl is-system-running --wait 2>/dev/null | grep -qE 'running|degraded'; do sleep 0.2; done")
	i.run(nil, "vm", "exec", "--root", "w", "--", "systemctl", "poweroff")
	if w := i.waitState("w", vm.Off); w.Failure != nil {
		t.Errorf("after a power-off: %+v", w.Failure)
	}
}
