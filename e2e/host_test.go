package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"bromure.io/tui/vm"
)

// TestOrdinaryUser: nothing needs root, and QEMU runs as the caller.
func TestOrdinaryUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("the tests run as an ordinary user already")
	}
	const uid = 64321 // nobody's
	i := newInstall(t, func(i *install) { i.as = &syscall.Credential{Uid: uid, Gid: uid} })
	i.ok("workspaces", "create", "--name", "w", "--memory", "0.5")
	if got := i.ok("vm", "run", "w", "--", "id", "-un"); got != "ubuntu\n" {
		t.Errorf("in the guest: %q", got)
	}
	for _, pid := range i.qemus() {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			t.Fatal(err)
		}
		for want, why := range map[string]string{
			fmt.Sprintf("Uid:\t%d\t%d", uid, uid): "it runs as another user",
			"Seccomp:\t2":                         "its sandbox is off",
			"CapEff:\t0000000000000000":           "it has capabilities",
		} {
			if !strings.Contains(string(status), want) {
				t.Errorf("QEMU: %s; /proc/PID/status:\n%s", why, status)
			}
		}
	}
	i.ok("vm", "stop", "w")
	err := filepath.WalkDir(i.root, func(p string, d os.DirEntry, err error) error {
		if err != nil || strings.Contains(p, "/images/") {
			return err
		}
		fi, err := d.Info()
		if err == nil && fi.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s may be read by others: %v", strings.TrimPrefix(p, i.root), fi.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestFullDisk: a start that finds no room says so, leaves nothing half-made, and works once there is room.
func TestFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("a small file system is mounted for this, which takes root")
	}
	small := t.TempDir()
	image := filepath.Join(small, "fs.img")
	mnt := filepath.Join(small, "mnt")
	if err := os.Mkdir(mnt, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][]string{
		{"truncate", "-s", "640M", image}, {"mke2fs", "-q", "-t", "ext4", image}, {"mount", "-o", "loop", image, mnt},
	} {
		if out, err := exec.Command(c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", c, err, out)
		}
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", mnt).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	i := newInstall(t, func(i *install) { i.root = filepath.Join(mnt, "root") })
	i.ok("workspaces", "create", "--name", "w", "--memory", "0.5")

	filler := filepath.Join(mnt, "filler")
	out, _ := exec.Command("sh", "-c", "cat /dev/zero > "+filler+"; sync").CombinedOutput()
	if !strings.Contains(string(out), "No space") {
		t.Fatalf("fill the disk: %s", out)
	}
	msg := i.fails(1, "vm", "run", "-d", "w")
	if !strings.Contains(strings.ToLower(msg), "space") {
		t.Errorf("the message does not say that the disk is full: %s", msg)
	}
	if pids := i.qemus(); len(pids) != 0 {
		t.Errorf("a machine runs: %v", pids)
	}
	w := i.describe("w")
	for _, name := range []string{"disk.img", "home.img"} {
		if fi, err := os.Stat(filepath.Join(w.Dir, name)); err == nil && name == "home.img" {
			t.Errorf("%s is there: %v", name, fi)
		}
	}
	// A workspace is a few kilobytes, for which some room may be left: it is made whole or not at all.
	second := i.run(nil, "workspaces", "create", "--name", "second")
	if second.code != 0 && !strings.Contains(strings.ToLower(second.stderr), "space") {
		t.Errorf("create on a full disk: %+v", second)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if got := i.ok("vm", "run", "w", "--", "echo", "fine"); got != "fine\n" {
		t.Errorf("with room again: %q", got)
	}
	if listed := strings.Contains(i.ok("workspaces", "ls"), "second"); listed != (second.code == 0) {
		t.Errorf("create ended with %d, listed: %v", second.code, listed)
	}
}

// TestDoctor says which accelerator, why, and what would help; it proves rather than assumes.
func TestDoctor(t *testing.T) {
	i := newInstall(t)
	out := i.ok("doctor")
	if !strings.Contains(out, "emulated") && !strings.Contains(out, "kvm") {
		t.Errorf("doctor: %s", out)
	}
	i.env = append(i.env, "PATH=/nowhere")
	i.ok("daemon", "stop")
	i.ok("workspaces", "create", "--name", "w", "--memory", "0.5")
	msg := i.fails(1, "vm", "run", "-d", "w")
	if !strings.Contains(msg, "qemu") || !strings.Contains(msg, "install") {
		t.Errorf("without QEMU: %s", msg)
	}
	if w := i.describe("w"); w.State != vm.Broken {
		t.Errorf("state %s", w.State)
	}
}

// TestLongPaths is field case F73: sockets have short paths wherever the data is.
func TestLongPaths(t *testing.T) {
	deep := filepath.Join(t.TempDir(), strings.Repeat("a", 90), strings.Repeat("b", 90))
	if err := os.MkdirAll(deep, 0o700); err != nil {
		t.Fatal(err)
	}
	i := newInstall(t, func(i *install) {
		i.root = filepath.Join(deep, "root,with=odd chars")
		i.env = append(i.env, "XDG_RUNTIME_DIR="+deep)
	})
	names := []string{strings.Repeat("n", 62) + "1", strings.Repeat("n", 62) + "2"}
	for k, n := range names {
		i.ok("workspaces", "create", "--name", n, "--memory", "0.5")
		if got := i.ok("vm", "run", n, "--", "sh", "-c", fmt.Sprintf("echo %d > f; cat f", k)); got != fmt.Sprintf("%d\n", k) {
			t.Errorf("%s: %q", n, got)
		}
	}
	if got := i.sh(names[0], "cat f"); got != "0" {
		t.Errorf("the first of two names that differ in their last character: %q", got)
	}
}
