package initd

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"bromure.io/tui/vm/guest"
)

// newRoot is where the root disk is mounted before it becomes the root.
const newRoot = "/newroot"

// Options of both file systems. With "discard" what is deleted goes back to the host as soon as the deletion is on the disk, so
// that images do not only grow. A damaged file system stops taking writes instead of getting worse.
const (
	ext4Flags   = unix.MS_NOATIME
	ext4Options = "discard,errors=remount-ro,noinit_itable" // inode tables are holes already: nothing to zero
)

// mountRoot mounts the root disk at [newRoot].
func mountRoot(d disk, note func(string)) error {
	head, err := readHead(d.path())
	if err != nil {
		return fmt.Errorf("look at the root disk: %w", err)
	}
	c, check := classify(head)
	if c != ext4 {
		return fmt.Errorf("the root disk %s has no ext4 file system", d.name)
	}
	if err := os.MkdirAll(newRoot, 0o755); err != nil {
		return err
	}
	if check {
		if err := checkRoot(d, note); err != nil {
			return err
		}
	}
	return mountExt4(d, newRoot)
}

func mountExt4(d disk, point string) error {
	if err := unix.Mount(d.path(), point, "ext4", ext4Flags, ext4Options); err != nil {
		return fmt.Errorf("mount %s at %s: %w", d.name, point, err)
	}
	return nil
}

// checkRoot lets the root disk's own e2fsck repair it, while it is mounted read-only: no other is there. Afterwards it is
// unmounted, so that the kernel reads again what was repaired.
func checkRoot(d disk, note func(string)) error {
	note("the root disk has errors and is checked")
	if err := unix.Mount(d.path(), newRoot, "ext4", unix.MS_RDONLY|unix.MS_NOATIME, ""); err != nil {
		return fmt.Errorf("mount the root disk to check it: %w", err)
	}
	// e2fsck checks a mounted file system only when it is the root, and looks into /proc/mounts for that.
	var bound []string
	defer func() {
		for _, dir := range bound {
			_ = unix.Unmount(dir, 0)
		}
		_ = unix.Unmount(newRoot, 0)
	}()
	for _, dir := range []string{"/dev", "/proc"} {
		if err := unix.Mount(dir, newRoot+dir, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("make %s visible to e2fsck: %w", dir, err)
		}
		bound = append(bound, newRoot+dir)
	}
	if err := check(newRoot, d, note); err != nil {
		return fmt.Errorf("check the root disk: %w", err)
	}
	return nil
}

// check runs e2fsck of the system at root on a disk. It repairs what it can without asking.
func check(root string, d disk, note func(string)) error {
	out, status, err := run(root, "/sbin/e2fsck", "-p", d.path())
	for line := range strings.Lines(out) {
		note("e2fsck: " + strings.TrimSpace(line))
	}
	if err != nil {
		return err
	}
	return checked(status)
}

// mountHome mounts the home disk in the system that is the root now. A blank one, which the host normally
// formats, gets its file system here; one that holds anything else is never formatted.
func mountHome(d disk, note func(string)) error {
	head, err := readHead(d.path())
	if err != nil {
		return fmt.Errorf("look at the home disk: %w", err)
	}
	c, needsCheck := classify(head)
	switch c {
	case foreign:
		return fmt.Errorf("the home disk %s holds something that is no ext4 file system; it is left as it is", d.name)
	case blank:
		if err := format(d); err != nil {
			return err
		}
	case ext4:
		if needsCheck {
			note("the home disk has errors and is checked")
			if err := check("/", d, note); err != nil {
				return fmt.Errorf("check the home disk: %w", err)
			}
		}
	}
	if err := os.MkdirAll(guest.HomeDir, homeMode); err != nil {
		return fmt.Errorf("make the home directory: %w", err)
	}
	return mountExt4(d, guest.HomeDir)
}

// homeLabel is the volume name of a home.
const homeLabel = "bromure-home"

func format(d disk) error {
	// The tables are left to be made when they are used: a fresh sparse image reads as zeroes.
	out, status, err := run("/", "/sbin/mke2fs", "-q", "-F", "-t", "ext4", "-m", "0", "-L", homeLabel,
		"-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard", d.path())
	if err == nil && status != 0 {
		err = fmt.Errorf("mke2fs failed with status %d: %s", status, strings.TrimSpace(out))
	}
	if err != nil {
		return fmt.Errorf("format the home disk: %w", err)
	}
	return nil
}

// maxOutput bounds what is kept of a program's output, in bytes.
const maxOutput = 16 << 10

// run starts a program of the system at root and waits for it. The error is about starting it only.
func run(root, path string, args ...string) (output string, status int, err error) {
	var out limited
	cmd := exec.Command(path, args...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8"}
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	err = cmd.Run()
	if _, ok := errors.AsType[*exec.ExitError](err); ok {
		err = nil
	}
	if err != nil {
		return "", 0, fmt.Errorf("run %s: %w", filepath.Base(path), err)
	}
	return out.String(), cmd.ProcessState.ExitCode(), nil
}

// limited keeps the first [maxOutput] bytes written to it.
type limited struct{ strings.Builder }

func (l *limited) Write(b []byte) (int, error) {
	if room := maxOutput - l.Len(); room > 0 {
		l.Builder.Write(b[:min(room, len(b))])
	}
	return len(b), nil
}
