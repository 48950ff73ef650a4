package e2e

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"bromure.io/tui/vm"
)

// TestVerbsThatRemove: on a real guest each verb removes what it names and nothing else.
func TestVerbsThatRemove(t *testing.T) {
	i := newInstall(t)
	i.ok("workspaces", "create", "--name", "w", "--memory", "0.5")
	deb := emptyPackage(t)
	if r := i.run(deb, "vm", "run", "w", "--", "sh", "-ec", "cat > /tmp/p.deb; sudo dpkg -i /tmp/p.deb >&2; echo mine > ~/file; echo changed | sudo tee /etc/mark"); r.code != 0 {
		t.Fatalf("set up: %+v", r)
	}
	w := i.describe("w")
	if msg := i.fails(4, "workspaces", "reset", "w", "--yes"); !strings.Contains(msg, "vm stop") {
		t.Errorf("reset of a running workspace: %s", msg)
	}
	i.ok("vm", "stop", "w")
	i.fails(4, "workspaces", "reset", "w") // no terminal, no --yes

	// Reset: the package and /etc are as in the base, the home is intact.
	if plan := i.ok("workspaces", "reset", "w", "--plan"); !strings.Contains(plan, "disk.img") || strings.Contains(plan, "home.img") {
		t.Errorf("plan of reset:\n%s", plan)
	}
	i.ok("workspaces", "reset", "w", "--yes")
	if _, err := os.Lstat(filepath.Join(w.Dir, "disk.img")); err == nil {
		t.Error("disk.img is still there")
	}
	got := i.ok("vm", "run", "w", "--", "sh", "-c", "cat ~/file; test -e /etc/mark || echo no mark; dpkg -s bromure-e2e >/dev/null 2>&1 || echo no package")
	if got != "mine\nno mark\nno package\n" {
		t.Errorf("after reset: %q", got)
	}

	// Erase home: the next boot has a fresh one.
	i.sh("w", "echo system | sudo tee /etc/mark")
	i.ok("vm", "stop", "w")
	i.ok("workspaces", "erase-home", "w", "--yes")
	got = i.ok("vm", "run", "w", "--", "sh", "-c", "cat /etc/mark; test -e ~/file || echo no file; test -e ~/.bashrc && echo fresh; stat -c %U ~")
	if got != "system\nno file\nfresh\nubuntu\n" {
		t.Errorf("after erase-home: %q", got)
	}
	i.ok("vm", "stop", "w")

	// After all that there is no file in it that no kind of vm.Kinds explains.
	if plan := i.ok("workspaces", "rm", "w", "--plan", "-o", "json"); strings.Contains(plan, `"unknown"`) {
		t.Errorf("the program has made files that nobody planned for: %s", plan)
	}

	// Delete: no directory, no open handle, no MAC; a new one of the same name is another one.
	i.ok("workspaces", "rm", "w", "--yes")
	if _, err := os.Lstat(w.Dir); err == nil {
		t.Errorf("%s is still there", w.Dir)
	}
	if macs, err := os.ReadFile(filepath.Join(i.root, "macs.json")); err != nil || strings.Contains(string(macs), string(w.MAC)) {
		t.Errorf("MAC %s: %v in %s", w.MAC, err, macs)
	}
	fds, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.Contains(to, string(w.ID)) {
			t.Errorf("%s is an open handle on %s", fd, to)
		}
	}
	if left, _ := os.ReadDir(filepath.Join(i.root, "trash")); len(left) > 1 { // the reserve stays
		t.Errorf("left in the trash: %v", left)
	}
	i.fails(3, "vm", "run", "w")
	i.ok("workspaces", "create", "--name", "w")
	if again := i.describe("w"); again.ID == w.ID || again.MAC == w.MAC {
		t.Errorf("the new workspace has the ID %s and MAC %s of the old", again.ID, again.MAC)
	}
}

// TestThrowaway: a workspace that is gone when its machine stops, whatever stopped it.
func TestThrowaway(t *testing.T) {
	i := newInstall(t)
	r := i.run([]byte("in"), "vm", "run", "--rm", "--memory", "0.5", "--", "sh", "-c", "cat; echo err >&2; exit 7")
	if r.code != 7 || r.stdout != "in" || !strings.Contains(r.stderr, "err") {
		t.Errorf("vm run --rm: %+v", r)
	}
	i.nothingLeft("after the command")

	// A signal reaches the command; the client's code says so (F91).
	for _, c := range []struct {
		sig  syscall.Signal
		code int
	}{{syscall.SIGTERM, 143}, {syscall.SIGINT, 130}} {
		cmd, ready := i.background("vm", "run", "--rm", "--memory", "0.5", "--", "sh", "-c", "echo ready; exec sleep 1000")
		ready("ready")
		if err := cmd.Process.Signal(c.sig); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != c.code {
			t.Errorf("%v: exit %d, want %d", c.sig, code, c.code)
		}
		i.nothingLeft("after " + c.sig.String())
	}

	// kill -9 of the front, of the machine, of the daemon, of all three.
	for _, victims := range []string{"front", "machine", "daemon", "front machine daemon"} {
		cmd, ready := i.background("vm", "run", "--rm", "--memory", "0.5", "--", "sh", "-c", "echo ready; exec sleep 1000")
		ready("ready")
		daemon, machine := i.daemonPID(), i.qemus()
		if len(machine) != 1 {
			t.Fatalf("machines: %v", machine)
		}
		if strings.Contains(victims, "daemon") {
			kill9(t, daemon)
		}
		if strings.Contains(victims, "machine") {
			kill9(t, machine[0])
		}
		if strings.Contains(victims, "front") {
			_ = cmd.Process.Kill()
		}
		_ = cmd.Wait()
		i.nothingLeft("after kill -9 of " + victims)
	}
}

// background starts a command and returns it with a function that waits until it prints a line.
func (i *install) background(args ...string) (cmd *exec.Cmd, ready func(string)) {
	i.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	i.t.Cleanup(cancel)
	c := i.command(ctx, args...)
	out, err := c.StdoutPipe()
	if err != nil {
		i.t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		i.t.Fatal(err)
	}
	return c, func(line string) {
		i.t.Helper()
		buf, got := make([]byte, 256), ""
		for !strings.Contains(got, line) {
			n, err := out.Read(buf)
			got += string(buf[:n])
			if err != nil {
				i.t.Fatalf("%q was not printed by %q: %q", line, args, got)
			}
		}
	}
}

// nothingLeft waits until there is no workspace and no machine any more.
func (i *install) nothingLeft(when string) {
	i.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		var list []struct{ ID vm.ID }
		out := i.ok("workspaces", "ls", "-o", "json") // starts a daemon where there is none
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			i.t.Fatalf("list: %v in %s", err, out)
		}
		dirs, _ := filepath.Glob(filepath.Join(i.root, "workspaces", "[0-9a-f]*"))
		if len(list) == 0 && len(i.qemus()) == 0 && len(dirs) == 0 {
			return
		}
		if time.Now().After(deadline) {
			i.t.Fatalf("%s: workspaces %v, directories %v, machines %v", when, list, dirs, i.qemus())
		}
		time.Sleep(50 * time.Millisecond)
	}
}
