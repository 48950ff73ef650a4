package initd

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"bromure.io/tui/vm/guest/sysinfo"
)

// mounting is a file system of the kernel's own.
type mounting struct {
	kind, point string
	flags       uintptr
	options     string
}

// earlyMounts are needed before anything else works.
func earlyMounts() []mounting {
	return []mounting{
		{"devtmpfs", "/dev", unix.MS_NOSUID, "mode=0755"},
		{"proc", "/proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
		{"sysfs", "/sys", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
	}
}

// lateMounts are those without which programs of the system do not run. Options are those of systemd's
// src/shared/mount-setup.c, which leaves alone what is mounted already. /tmp is in memory: what is there does not grow
// the disk, and is gone after a stop.
func lateMounts() []mounting {
	return []mounting{
		{"devpts", "/dev/pts", unix.MS_NOSUID | unix.MS_NOEXEC, "mode=0620,gid=5,ptmxmode=0666"}, // group 5 is tty
		{"tmpfs", "/dev/shm", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_STRICTATIME, "mode=1777,size=50%"},
		{"tmpfs", "/run", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_STRICTATIME, "mode=0755,size=20%,nr_inodes=800k"},
		{"tmpfs", "/tmp", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_STRICTATIME, "mode=1777,size=50%,nr_inodes=1m"},
		{"cgroup2", sysinfo.CgroupRoot, unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "nsdelegate,memory_recursiveprot"},
	}
}

func mountAll(list []mounting) error {
	for _, m := range list {
		if err := os.MkdirAll(m.point, 0o755); err != nil {
			return fmt.Errorf("make %s: %w", m.point, err)
		}
		err := unix.Mount(m.kind, m.point, m.kind, m.flags, m.options)
		if err != nil && err != unix.EBUSY { // EBUSY: it is there already
			return fmt.Errorf("mount %s: %w", m.point, err)
		}
	}
	return nil
}

// linkDevices makes the links in /dev that programs expect and no driver makes.
func linkDevices() error {
	for link, target := range map[string]string{
		"/dev/fd":     "/proc/self/fd",
		"/dev/stdin":  "/proc/self/fd/0",
		"/dev/stdout": "/proc/self/fd/1",
		"/dev/stderr": "/proc/self/fd/2",
	} {
		if err := os.Symlink(target, link); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// switchRoot makes [newRoot] the root of the file system and of this process, and gives the memory of the
// initramfs back by emptying it, as switch_root(8) does.
func switchRoot() error {
	for _, dir := range []string{"/dev", "/proc", "/sys"} {
		if err := os.MkdirAll(newRoot+dir, 0o755); err != nil {
			return fmt.Errorf("make %s on the root disk: %w", dir, err)
		}
		if err := unix.Mount(dir, newRoot+dir, "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("move %s: %w", dir, err)
		}
	}
	old, err := os.OpenRoot("/")
	if err != nil {
		return fmt.Errorf("open the initramfs: %w", err)
	}
	defer old.Close()
	if err := os.Chdir(newRoot); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the root disk to /: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("change the root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	return empty(old)
}

// Magic numbers of the file systems that an initramfs can be (statfs(2)).
const (
	ramfs = 0x858458f6
	tmpfs = 0x01021994
)

// empty removes everything from the initramfs. It makes sure first that it is one.
func empty(root *os.Root) error {
	d, err := root.Open(".")
	if err != nil {
		return fmt.Errorf("empty the initramfs: %w", err)
	}
	defer d.Close()
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(d.Fd()), &st); err != nil {
		return fmt.Errorf("empty the initramfs: %w", err)
	}
	if t := int64(st.Type); t != ramfs && t != tmpfs {
		return errors.New("empty the initramfs: it is none, but 0x" + strconv.FormatInt(t, 16))
	}
	names, err := d.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("empty the initramfs: %w", err)
	}
	for _, name := range names {
		// A mount point (the root disk was at one) says EBUSY; it holds no memory.
		if err := root.RemoveAll(name); err != nil && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("empty the initramfs: %w", err)
		}
	}
	return nil
}
