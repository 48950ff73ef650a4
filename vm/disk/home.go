package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"bromure.io/tui/internal/atomicfile"
	"bromure.io/tui/internal/failpoint"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm/guest"
)

// HomeLabel is the label of the file system in home.img.
const HomeLabel = "bromure-home"

// CreateHome makes home.img at path, which must not exist: a sparse raw image of size bytes with an ext4 file system, whose
// root belongs to the guest's user. Where the host has no mke2fs the image stays blank, and the guest formats it at its first boot.
func CreateHome(ctx context.Context, path string, size int64) error {
	return createHome(ctx, path, size, findMke2fs())
}

func createHome(ctx context.Context, path string, size int64, mke2fs string) error {
	if err := makeHome(ctx, path, size, mke2fs); err != nil {
		return problem.OfDisk(fmt.Errorf("make %s: %w", path, err), path)
	}
	return nil
}

func makeHome(ctx context.Context, path string, size int64, mke2fs string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, existsError(path))
	}
	if err := atomicfile.Sweep(filepath.Dir(path)); err != nil {
		return err
	}
	if err := CheckSpace(path, 0); err != nil {
		return err
	}
	f, err := atomicfile.Create(path, layout.FileMode)
	if err != nil {
		return err
	}
	defer f.Abort()
	if err := f.Truncate(size); err != nil {
		return err
	}
	if mke2fs != "" {
		if err := formatted(ctx, mke2fs, f.File, size); err != nil {
			return err
		}
		failpoint.Here("disk: home formatted")
	}
	err = f.CommitNew()
	if errors.Is(err, fs.ErrExist) {
		err = existsError(path)
	}
	return err
}

// formatted puts an empty file system into f, which is size bytes of nothing.
func formatted(ctx context.Context, mke2fs string, f *os.File, size int64) error {
	work, path := stage()
	if work == nil {
		return format(ctx, mke2fs, f.Name(), size, nil)
	}
	defer work.Close()
	if err := work.Truncate(size); err != nil {
		return err
	}
	if err := format(ctx, mke2fs, path, size, work); err != nil {
		return err
	}
	return copySparse(ctx, work, f, size, nil)
}

// formatTimeout bounds mke2fs, which takes 16 ms for 64 GiB on an idle disk.
const formatTimeout = 2 * time.Minute

// format runs mke2fs. Its choices keep the image small: tables and journal are written when they are
// needed, no room is kept for root, and the journal cannot grow to the gigabyte that it would get in 64 GiB.
func format(ctx context.Context, mke2fs, path string, size int64, extra *os.File) error {
	ctx, cancel := context.WithTimeout(ctx, formatTimeout)
	defer cancel()
	owner := strconv.Itoa(guest.UserID) + ":" + strconv.Itoa(guest.UserID)
	args := []string{"-q", "-F", "-t", "ext4", "-L", HomeLabel, "-m", "0",
		"-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=" + owner}
	if size >= 1<<30 {
		args = append(args, "-J", "size=64")
	}
	cmd := exec.CommandContext(ctx, mke2fs, append(args, path)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	if extra != nil {
		cmd.ExtraFiles = []*os.File{extra}
	}
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("mke2fs: %w", context.Cause(ctx))
	}
	if bytes.Contains(out, []byte("No space left on device")) {
		err = unix.ENOSPC
	}
	out = bytes.TrimSpace(out)
	return fmt.Errorf("mke2fs: %w: %q", err, out[:min(len(out), 500)])
}

// findMke2fs looks where distributions put it: the PATH of an ordinary user often lacks the sbin directories. Homebrew
// links nothing of e2fsprogs into its own. The result is empty when there is none.
func findMke2fs() string {
	if p, err := exec.LookPath("mke2fs"); err == nil {
		return p
	}
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/local/sbin", "/opt/homebrew/opt/e2fsprogs/sbin", "/usr/local/opt/e2fsprogs/sbin"} {
		if p, err := exec.LookPath(filepath.Join(dir, "mke2fs")); err == nil {
			return p
		}
	}
	return ""
}
