package sysinfo

import (
	"errors"
	"fmt"
	"math"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"bromure.io/tui/vm/guest"
)

// rndReseedCRNG is RNDRESEEDCRNG of linux/random.h, _IO('R', 0x07).
const rndReseedCRNG = 0x5207

// fitrim is FITRIM of linux/fs.h, _IOWR('X', 121, struct fstrim_range).
const fitrim = 0xc0185879

// minStep is the smallest difference for which the clock is set. A step disturbs programs, and the
// host's time has been on its way for a while.
const minStep = 20 * time.Millisecond

// Now is the system's wall clock.
func Now() time.Time { return time.Now().Round(0) }

// SetClock sets the wall clock to t, and returns what it reads then. A clock that has to be set was
// stopped, perhaps in a copy of memory that was made twice; so the random pool is seeded anew, too.
func SetClock(t time.Time) (time.Time, error) {
	if y := t.Year(); y < 2020 || y > 2200 {
		return Now(), fmt.Errorf("set the clock: %s is out of the question", t.Format(time.RFC3339))
	}
	if d := time.Until(t.Round(0)); d < minStep && d > -minStep {
		return Now(), nil
	}
	ts := unix.NsecToTimespec(t.UnixNano())
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &ts); err != nil {
		return Now(), fmt.Errorf("set the clock: %w", err)
	}
	return Now(), reseed()
}

// reseed makes the kernel's random generator take fresh entropy from its pool now (random(4)).
func reseed() error {
	f, err := os.OpenFile("/dev/urandom", os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("reseed the random pool: %w", err)
	}
	defer f.Close()
	if err := unix.IoctlSetInt(int(f.Fd()), rndReseedCRNG, 0); err != nil && !errors.Is(err, unix.ENODATA) {
		return fmt.Errorf("reseed the random pool: %w", err)
	}
	return nil
}

// Trim gives the unused blocks of the root file system and of home back to the host. Home is zero
// when it is a part of the root file system.
func (r Reader) Trim() (guest.Trimmed, error) {
	var t guest.Trimmed
	var err, err2 error
	t.Root, err = trim(r.root())
	if same, e := sameFileSystem(r.root(), r.home()); e != nil {
		err2 = e
	} else if !same {
		t.Home, err2 = trim(r.home())
	}
	return t, errors.Join(err, err2)
}

// trim discards what the file system of path does not use, and returns how many bytes that was. Before, what was
// deleted has to be on the disk, otherwise its blocks still count as used.
func trim(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, fmt.Errorf("trim: %w", err)
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return 0, fmt.Errorf("trim %s: %w", path, err)
	}
	arg := struct{ start, len, minlen uint64 }{len: math.MaxUint64} // struct fstrim_range
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), fitrim, uintptr(unsafe.Pointer(&arg))); errno != 0 {
		return 0, fmt.Errorf("trim %s: %w", path, errno)
	}
	return int64(arg.len), nil
}

// Sync writes the root file system and home to their disks, and reports what a plain sync(2) hides.
func (r Reader) Sync() error {
	var errs []error
	for _, path := range []string{r.root(), r.home()} {
		f, err := os.Open(path)
		if err == nil {
			err = unix.Syncfs(int(f.Fd()))
			f.Close()
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("sync %s: %w", path, err))
		}
	}
	return errors.Join(errs...)
}

func sameFileSystem(a, b string) (bool, error) {
	var x, y unix.Stat_t
	if err := errors.Join(unix.Stat(a, &x), unix.Stat(b, &y)); err != nil {
		return false, fmt.Errorf("compare the file systems of %s and %s: %w", a, b, err)
	}
	return x.Dev == y.Dev, nil
}
