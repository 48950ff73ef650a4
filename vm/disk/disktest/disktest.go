// Package disktest gives tests and benchmarks real file systems and a base image to clone. It is for
// tests and measurements only and imports nothing of ours.
package disktest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// FileSystems are those that [Mount] knows.
var FileSystems = []string{"btrfs", "xfs", "ext4"}

// MinSize is the smallest size at which all of them work: mkfs.xfs refuses less than 300 MiB.
const MinSize = 320 << 20

// ErrCannot marks the errors of [MountIn] that are about this host: it lacks a right, a program or a driver.
var ErrCannot = errors.New("cannot be done on this host")

// Mount makes a file system of that kind and size (bytes) in a sparse file, mounts it through a loop device, and
// returns the mount point. The test ends by unmounting it. Where that cannot be done, the test is
// skipped and says why.
func Mount(tb testing.TB, kind string, size int64) string {
	tb.Helper()
	point, unmount, err := MountIn(tb.TempDir(), kind, size)
	if errors.Is(err, ErrCannot) {
		tb.Skip(err)
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := unmount(); err != nil {
			tb.Error(err)
		}
	})
	return point
}

// MountIn is [Mount] for programs: the sparse file and the mount point are made in dir.
func MountIn(dir, kind string, size int64) (point string, unmount func() error, err error) {
	if runtime.GOOS != "linux" {
		return "", nil, fmt.Errorf("a %s to test on is mounted on Linux only: %w", kind, ErrCannot)
	}
	if os.Getuid() != 0 {
		return "", nil, fmt.Errorf("a %s to test on is mounted by root only: %w", kind, ErrCannot)
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		return "", nil, fmt.Errorf("no loop devices: %w: %w", err, ErrCannot)
	}
	args := map[string][]string{
		"btrfs": {"mkfs.btrfs", "-q", "-f"},
		"xfs":   {"mkfs.xfs", "-q", "-f", "-m", "reflink=1"},
		"ext4":  {"mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1"},
	}[kind]
	if args == nil {
		return "", nil, fmt.Errorf("unknown file system %q", kind)
	}
	mkfs, err := find(args[0])
	if err != nil {
		return "", nil, fmt.Errorf("no %s to test on: %w: %w", kind, err, ErrCannot)
	}
	image, point := filepath.Join(dir, kind+".img"), filepath.Join(dir, kind)
	if err := errors.Join(sparse(image, size), os.Mkdir(point, 0o700)); err != nil {
		return "", nil, err
	}
	if out, err := exec.Command(mkfs, append(args[1:], image)...).CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("%s: %w: %s", mkfs, err, out)
	}
	// The loop device goes away with the mount.
	if out, err := exec.Command("mount", "-o", "loop", "-t", kind, image, point).CombinedOutput(); err != nil {
		err = fmt.Errorf("mount a %s: %w: %s", kind, err, out)
		if why := string(out); strings.Contains(why, "unknown filesystem type") || strings.Contains(why, "permission denied") ||
			strings.Contains(why, "failed to setup loop device") {
			err = fmt.Errorf("%w: %w", err, ErrCannot)
		}
		return "", nil, err
	}
	unmount = func() error {
		if out, err := exec.Command("umount", point).CombinedOutput(); err != nil {
			return fmt.Errorf("unmount %s: %w: %s", point, err, out)
		}
		return nil
	}
	if err := os.Chmod(point, 0o700); err != nil {
		return "", nil, errors.Join(err, unmount())
	}
	return point, unmount, nil
}

func find(program string) (string, error) {
	if p, err := exec.LookPath(program); err == nil {
		return p, nil
	}
	return exec.LookPath("/usr/sbin/" + program)
}

func sparse(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

// Base makes a sparse file of size bytes with about data bytes in it, in pieces of 1 MiB that are spread evenly, as a base
// image has them. It is 0444, and its content depends on nothing but the two figures.
func Base(tb testing.TB, path string, size, data int64) {
	tb.Helper()
	if err := MakeBase(path, size, data); err != nil {
		tb.Fatal(err)
	}
}

// MakeBase is [Base] for programs.
func MakeBase(path string, size, data int64) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Truncate(size); err != nil {
		return err
	}
	const piece = 1 << 20
	pieces := max(1, data/piece)
	buf := make([]byte, min(piece, size))
	noise := rand.NewChaCha8([32]byte{'b', 'a', 's', 'e'})
	for i := range pieces {
		noise.Read(buf)
		at := (size / pieces * i) &^ 4095
		if _, err := f.WriteAt(buf[:min(int64(len(buf)), size-at)], at); err != nil {
			return fmt.Errorf("make a base image: %w", err)
		}
	}
	return f.Sync()
}
