package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"bromure.io/tui/internal/atomicfile"
	"bromure.io/tui/internal/failpoint"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
)

// Options of [Clone].
type Options struct {
	// QCOW2 says that the backend can run a qcow2 overlay.
	QCOW2 bool

	// Format is the format of the source; empty: raw.
	Format vm.DiskFormat

	// Record, if set, is called when the clone is complete and on the disk, before it has its name. What it
	// writes down is therefore never older than the file; its error undoes the clone.
	Record func(Result) error

	only    Kind   // for tests and benchmarks: this kind or an error
	pause   func() // for tests: called while a copy is half done
	unasked bool   // for tests: do not look first whether there is room
}

// Clone makes dst, which must not exist, a disk with the content of src, by the first way that the
// file system has: shared blocks (clonefile, FICLONE), a qcow2 overlay (where QCOW2 allows it), a copy that leaves holes out.
//
// src is opened for reading only and stays what the clone depends on if it is an overlay. On an error, or when
// the process dies, there is no dst; the caller holds the lock of the workspace whose directory dst is in.
func Clone(ctx context.Context, src, dst string, o Options) (Result, error) {
	r, err := clone(ctx, src, dst, o)
	if err != nil {
		return Result{}, problem.OfDisk(fmt.Errorf("clone %s: %w", src, err), dst)
	}
	return r, nil
}

func clone(ctx context.Context, src, dst string, o Options) (Result, error) {
	if err := ctx.Err(); err != nil {
		return Result{}, err
	}
	if _, err := os.Lstat(dst); !errors.Is(err, fs.ErrNotExist) {
		return Result{}, errors.Join(err, existsError(dst))
	}
	from, err := os.OpenFile(src, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return Result{}, err
	}
	defer from.Close()
	fi, err := from.Stat()
	if err != nil {
		return Result{}, err
	}
	if !fi.Mode().IsRegular() {
		return Result{}, errors.New("it is not a regular file")
	}
	// Whatever a killed clone has left here is in the way of the next one: it may have filled the disk.
	if err := atomicfile.Sweep(filepath.Dir(dst)); err != nil {
		return Result{}, err
	}
	if !o.unasked {
		if err := CheckSpace(dst, 0); err != nil {
			return Result{}, err
		}
	}
	to, err := atomicfile.Create(dst, layout.FileMode)
	if err != nil {
		return Result{}, err
	}
	defer to.Abort()
	r, err := fill(ctx, from, fi, to, dst, o)
	if err != nil {
		return Result{}, err
	}
	failpoint.Here("disk: cloned")
	if o.Record != nil {
		to.Before = func() error { return o.Record(r) }
	}
	err = to.CommitNew()
	if errors.Is(err, fs.ErrExist) {
		err = existsError(dst)
	}
	return r, err
}

func existsError(dst string) error {
	return problem.New(problem.Refused, fmt.Sprintf("%s exists", dst), "Move it away: it is not overwritten.")
}

// fill makes to, which is empty, a clone of from.
func fill(ctx context.Context, from *os.File, fi fs.FileInfo, to *atomicfile.File, dst string, o Options) (Result, error) {
	format := o.Format
	if format == "" {
		format = vm.Raw
	}
	wanted := func(k ...Kind) bool {
		for _, kind := range k {
			if o.only == kind {
				return true
			}
		}
		return o.only == ""
	}
	if wanted(Clonefile, Reflink) {
		kind, err := share(from, to)
		if err == nil {
			return Result{kind, format}, nil
		}
		if !cannotShare(err) || o.only != "" {
			return Result{}, err
		}
	}
	if wanted(Overlay) && o.QCOW2 && format == vm.Raw {
		backing, err := filepath.Rel(filepath.Dir(dst), from.Name())
		if err != nil {
			backing = from.Name()
		}
		if err := writeOverlay(to, fi.Size(), backing); err != nil {
			return Result{}, err
		}
		return Result{Overlay, vm.QCOW2}, nil
	}
	if !wanted(Copy) {
		return Result{}, vm.ErrUnsupported
	}
	if !o.unasked {
		if err := CheckSpace(dst, allocated(fi)); err != nil {
			return Result{}, err
		}
	}
	if err := copySparse(ctx, from, to.File, fi.Size(), o.pause); err != nil {
		return Result{}, err
	}
	return Result{Copy, format}, nil
}

// cannotShare says whether err means that these two files cannot share blocks, and nothing worse:
// ioctl_ficlone(2), clonefile(2).
func cannotShare(err error) bool {
	for _, e := range []error{
		unix.EOPNOTSUPP, unix.ENOTSUP, unix.ENOTTY, unix.ENOSYS, unix.EXDEV, unix.EINVAL,
		unix.EPERM,   // a file with a flag that forbids it
		unix.ETXTBSY, // a swap file
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
