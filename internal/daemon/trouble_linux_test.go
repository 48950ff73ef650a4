package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/daemon"
	"bromure.io/tui/internal/daemon/daemontest"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/internal/verb"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/disk/disktest"
	"bromure.io/tui/vm/store"
	"bromure.io/tui/vm/vmtest"
)

// placeOn is a place whose data root is below a mount point, with an image and workspaces that have things of every kind.
func placeOn(t *testing.T, point string, names ...string) *daemontest.Place {
	t.Helper()
	p := daemontest.TempPlace(t)
	p.Root = layout.Root(filepath.Join(point, "root"))
	if err := layout.Ensure(string(p.Root)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.AddImage("1", daemontest.Epoch()); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		ws, err := p.AddWorkspace(store.NewWorkspace{Name: name})
		if err == nil {
			_, err = p.Fill(ws)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return p
}

func tmpfs(t *testing.T, size string) (point string) {
	t.Helper()
	point = t.TempDir()
	if err := syscall.Mount("tmpfs", point, "tmpfs", 0, "mode=0700,size="+size); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(point, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return point
}

// fillUp leaves no byte on the file system of dir.
func fillUp(t *testing.T, dir string) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "ballast"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 16; size > 0; size /= 2 {
		for {
			if _, err := f.Write(make([]byte, size)); errors.Is(err, syscall.ENOSPC) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A full disk does not keep anybody from making room: the journal has its own, again and again.
func TestRemovalsOnAFullDisk(t *testing.T) {
	for _, kind := range []string{"tmpfs", "ext4"} {
		t.Run(kind, func(t *testing.T) {
			var point string
			if kind == "tmpfs" {
				point = tmpfs(t, "4m")
			} else {
				point = disktest.Mount(t, kind, 16<<20)
			}
			p := placeOn(t, point, "a", "b")
			d := p.Start(t, nil)
			for _, c := range []struct {
				verb    verb.Verb
				subject string
			}{{verb.Reset, "a"}, {verb.EraseHome, "a"}, {verb.Delete, "a"}, {verb.Reset, "b"}, {verb.Delete, "b"}} {
				fillUp(t, point)
				if _, err := d.Create(t.Context(), wire.Create{Name: "new"}); !problem.IsFull(err) && !strings.Contains(fmt.Sprint(err), "no space left") {
					t.Errorf("create on a full disk: %v", err)
				}
				plan := planOf(t, d, c.verb, c.subject)
				carryOut(t, d, plan)
				dir := string(p.Root.Workspace(plan.Subject.ID))
				for _, l := range plan.Losses {
					if _, err := os.Lstat(filepath.Join(dir, l.Path)); l.Path != "" && err == nil {
						t.Errorf("%s of %s: %s is still there", c.verb, c.subject, l.Path)
					}
				}
				nothingInTrash(t, p)
			}
			if got := macs(t, p); len(got) != 0 {
				t.Errorf("addresses: %v", got)
			}
		})
	}
}

func nothingInTrash(t *testing.T, p *daemontest.Place) {
	t.Helper()
	if left := inTrash(t, p); len(left) != 0 {
		t.Errorf("in the trash: %q", left)
	}
}

func inTrash(t *testing.T, p *daemontest.Place) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(p.Root.Trash())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != ".reserve" {
			names = append(names, e.Name())
		}
	}
	return names
}

// On a read-only file system nothing begins, nothing changes, and the reason is said.
func TestReadOnlyRoot(t *testing.T) {
	point := tmpfs(t, "4m")
	p := placeOn(t, point, "a")
	d := p.Start(t, nil)
	plan := planOf(t, d, verb.Delete, "a")

	// Only the place of the journals: the daemon has files open elsewhere, so that all of it cannot change while it runs.
	trash := p.Root.Trash()
	before := tree(t, p)
	if err := errors.Join(syscall.Mount(trash, trash, "", syscall.MS_BIND, ""),
		syscall.Mount("", trash, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, "")); err != nil {
		t.Fatal(err)
	}
	_, err := d.Do(t.Context(), wire.Do{Plan: plan.ID}, nil)
	if uerr := syscall.Unmount(trash, 0); uerr != nil {
		t.Fatal(uerr)
	}
	if err == nil || !strings.Contains(err.Error(), "nothing was removed") || !strings.Contains(err.Error(), "read-only") || problem.HintOf(err) == "" {
		t.Errorf("with a trash that cannot be written to: %v; hint %q", err, problem.HintOf(err))
	}
	if c := changed(before, tree(t, p)); c != nil {
		t.Errorf("changed: %q", c)
	}
	d.Stop()

	before = tree(t, p)
	if err := syscall.Mount("", point, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err = daemon.Run(ctx, daemon.Options{Root: p.Root, Runtime: p.Runtime, Version: "test", Backend: &vmtest.Fake{}})
	if err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("a daemon on a read-only root: %v", err)
	}
	if c := changed(before, tree(t, p)); c != nil {
		t.Errorf("changed: %q", c)
	}
	if err := syscall.Mount("", point, "", syscall.MS_REMOUNT, ""); err != nil {
		t.Fatal(err)
	}
	d = p.Start(t, nil)
	carryOut(t, d, planOf(t, d, verb.Delete, "a"))
	nothingInTrash(t, p)
}

// immutable sets or clears the flag that keeps even root from removing a file, ioctl_iflags(2).
func immutable(t *testing.T, path string, on bool) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	flags, err := unix.IoctlGetInt(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err == nil {
		const immutable = 0x10 // FS_IMMUTABLE_FL of <linux/fs.h>
		if flags &^= immutable; on {
			flags |= immutable
		}
		err = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, flags)
	}
	if err != nil {
		t.Skipf("a file cannot be made immutable here: %v", err)
	}
}

// stuck carries out a verb that something stops in the middle, and restarts the daemon before and after allow takes that away.
func stuck(t *testing.T, p *daemontest.Place, v verb.Verb, forbid, allow func(dir string)) {
	d := p.Start(t, nil)
	plan := planOf(t, d, v, "a")
	dir := string(p.Root.Workspace(plan.Subject.ID))
	before := tree(t, p)
	forbid(dir)
	_, err := d.Do(t.Context(), wire.Do{Plan: plan.ID}, nil)
	if err == nil || !strings.Contains(err.Error(), "has begun and could not be finished") || !strings.Contains(problem.HintOf(err), "next start of the daemon") {
		t.Errorf("%v; hint %q", err, problem.HintOf(err))
	}
	if left := inTrash(t, p); len(left) != 1 || left[0] != plan.ID {
		t.Errorf("the trash has %q, not the journal", left)
	}
	for range 2 { // it can be tried as often as one likes
		d.Stop()
		d = p.Start(t, nil)
		if _, err := d.Snapshot(t.Context()); err != nil {
			t.Errorf("the list meanwhile: %v", err)
		}
		if left := inTrash(t, p); len(left) != 1 {
			t.Errorf("the trash has %q, not the journal", left)
		}
	}
	// Whatever is not named is untouched all the time.
	unnamed := func() {
		t.Helper()
		now := tree(t, p)
		for path, what := range before {
			rel, inside := strings.CutPrefix(path, "workspaces/"+plan.Subject.ID+"/")
			named := inside && v == verb.Delete
			for _, l := range plan.Losses {
				named = named || inside && l.Path != "" && (rel == l.Path || strings.HasPrefix(rel, l.Path+"/"))
			}
			if !named && now[path] != what && !isDir(what) && !rewritten(v, path) && !strings.HasSuffix(path, ".json") && path != "workspaces/"+plan.Subject.ID {
				t.Errorf("%s is %q, was %q", path, now[path], what)
			}
		}
	}
	unnamed()
	allow(dir)
	d.Stop()
	d = p.Start(t, nil)
	nothingInTrash(t, p)
	unnamed()
	for _, l := range plan.Losses {
		if _, err := os.Lstat(filepath.Join(dir, l.Path)); l.Path != "" && err == nil {
			t.Errorf("%s is still there", l.Path)
		}
	}
	if _, held := macs(t, p)[vm.ID(plan.Subject.ID)]; held != (v != verb.Delete) {
		t.Errorf("its address is reserved: %v", held)
	}
}

// A file that cannot be moved, or not removed, stops a removal in the middle: that is said, and the removal is finished by the
// daemon that starts when the file can be.
func TestRemovalIsStuck(t *testing.T) {
	t.Run("move", func(t *testing.T) {
		p := placeOn(t, disktest.Mount(t, "ext4", 32<<20), "a", "other")
		var at string
		stuck(t, p, verb.EraseHome, func(dir string) {
			at = layout.WorkspaceDir(dir).Checkpoint("2026-11-29T21-30-00Z").Home()
			immutable(t, at, true)
			t.Cleanup(func() {
				if _, err := os.Lstat(at); err == nil {
					immutable(t, at, false)
				}
			})
		}, func(string) { immutable(t, at, false) })
	})
	t.Run("sweep", func(t *testing.T) {
		p := placeOn(t, disktest.Mount(t, "ext4", 32<<20), "a", "other")
		find := func() string {
			t.Helper()
			found, err := filepath.Glob(filepath.Join(p.Root.Trash(), "*", "0", "home.img"))
			if err != nil || len(found) != 1 {
				t.Fatalf("in the trash: %q, %v", found, err)
			}
			return found[0]
		}
		stuck(t, p, verb.Delete, func(dir string) { immutable(t, filepath.Join(dir, "home.img"), true) },
			func(string) { immutable(t, find(), false) })
	})
}

// The same for an ordinary user, whom the mode of a directory stops.
func TestRemovalIsStuckForAUser(t *testing.T) {
	if os.Getuid() == 0 {
		asNobody(t)
		return
	}
	for _, v := range []verb.Verb{verb.EraseHome, verb.Delete} {
		t.Run(string(v), func(t *testing.T) {
			p := placeOn(t, daemontest.TempPlace(t).Dir, "a", "other")
			chmod := func(mode os.FileMode) func(string) {
				return func(dir string) {
					dirs, err := filepath.Glob(filepath.Join(p.Root.Trash(), "*", "0", "checkpoints", "*"))
					if err != nil {
						t.Fatal(err)
					}
					dirs = append(dirs, string(layout.WorkspaceDir(dir).Checkpoint("2026-11-29T21-30-00Z")))
					for _, d := range dirs {
						if err := os.Chmod(d, mode); err != nil && !errors.Is(err, os.ErrNotExist) {
							t.Fatal(err)
						}
					}
				}
			}
			stuck(t, p, v, chmod(0o500), chmod(0o700))
		})
	}
}

// asNobody runs the current test again as a user without rights.
func asNobody(t *testing.T) {
	t.Helper()
	dir := daemontest.TempPlace(t).Dir
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	// The test binary is in a directory of root's.
	from, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	exe := filepath.Join(dir, "test")
	to, err := os.OpenFile(exe, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(to, from); err != nil {
		t.Fatal(err)
	}
	if err := to.Close(); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("as an ordinary user: %v\n%s", err, out)
	}
}
