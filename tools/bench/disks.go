package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"bromure.io/tui/images"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/disk"
	"bromure.io/tui/vm/disk/disktest"
	"bromure.io/tui/vm/store"
)

// Bases of two sizes: what a base image holds today, and four times that. What is flat in image size takes as long for both.
var baseData = []int64{256 << 20, 1 << 30}

// volume is enough for both bases, a copy of each, and what the file systems keep for themselves.
const volume = 6 << 30

// takeDisks measures a new workspace with both of its disks, per file system, beside the tool that
// people would use there: a reflink where the file system has it, else a sparse copy.
func takeDisks(ctx context.Context, b *bench) (figures []figure, err error) {
	for _, fs := range disktest.FileSystems {
		f, err := b.disksOn(ctx, fs)
		figures = append(figures, f...)
		if err != nil {
			return figures, fmt.Errorf("on %s: %w", fs, err)
		}
	}
	return figures, nil
}

func (b *bench) disksOn(ctx context.Context, fs string) (figures []figure, err error) {
	dir, err := os.MkdirTemp(b.work, fs)
	if err != nil {
		return nil, err
	}
	point, unmount, err := disktest.MountIn(dir, fs, volume)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unmount()) }()

	root := layout.Root(filepath.Join(point, "root"))
	s, err := store.Open(root)
	if err != nil {
		return nil, err
	}
	for _, data := range baseData {
		base := filepath.Join(point, fmt.Sprintf("base-%d.img", data>>20))
		if err := disktest.MakeBase(base, images.LogicalSize, data); err != nil {
			return nil, err
		}
		f := figure{
			name: fmt.Sprintf("workspace and disks, %s, %d MiB in a 24 GiB base", fs, data>>20), unit: milliseconds, aim: aim{value: 50},
		}
		cp := "--reflink=always"
		if f.against = "cp --reflink, synced"; fs == "ext4" {
			f.against, cp = "cp --sparse, synced", "--sparse=always"
		}
		ours := timed(func(ctx context.Context) error { return newWorkspace(ctx, s, base) })
		ref := timed(func(ctx context.Context) error {
			return exec.CommandContext(ctx, "sh", "-c", `cp "$1" "$2" "$3" && sync "$3"`, "sh", cp, base, filepath.Join(point, "copy.img")).Run()
		})
		// What was made goes away between two runs, outside of the time, and so does what the one before has left to write.
		settled := func(s sample, undo func() error) sample {
			return func(ctx context.Context) (float64, error) {
				if out, err := exec.CommandContext(ctx, "sync", "-f", point).CombinedOutput(); err != nil {
					return 0, fmt.Errorf("sync: %w: %s", err, out)
				}
				ms, err := s(ctx)
				return ms, errors.Join(err, undo())
			}
		}
		err := f.alternate(ctx, b.n,
			settled(ours, func() error { return emptied(root.Workspaces()) }),
			settled(ref, func() error { return os.Remove(filepath.Join(point, "copy.img")) }))
		if err != nil {
			return figures, err
		}
		figures = append(figures, f)
	}
	return figures, nil
}

// newWorkspace is what create and the first start do on the disk.
func newWorkspace(ctx context.Context, s *store.Store, base string) error {
	ws, err := s.Create(ctx, store.NewWorkspace{})
	if err != nil {
		return err
	}
	dir, err := s.Dir(ws.ID)
	if err != nil {
		return err
	}
	if _, err := disk.Clone(ctx, base, dir.Disk(), disk.Options{QCOW2: true}); err != nil {
		return err
	}
	return disk.CreateHome(ctx, dir.Home(), int64(vm.DefaultHomeMiB)<<20)
}

// emptied removes the workspaces that a measurement made in a root of its own.
func emptied(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if _, bad := vm.ParseID(e.Name()); bad == nil {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}
