// Package initramfs makes the initramfs of one boot: the image's, which has the kernel modules, followed by an archive
// with the guest program and what it is handed over. The kernel unpacks one after the other
// (Documentation/driver-api/early-userspace/buffer-format.rst), and of two files with one name the later wins.
package initramfs

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"bromure.io/tui/internal/cpio"
	"bromure.io/tui/vm/guest"
)

// align is what the image's part is padded to. The kernel wants an archive to begin at a multiple of 4 bytes and skips zeroes
// before it; 512 is what cpio(1) itself pads to.
const align = 512

// Write makes the file at path, which must not exist, with mode 0600: it has this boot's keys in it. base is the path of the
// image's initramfs; with "" there is only the boot archive, which is enough for [guest.Probe]. On an error no file stays.
func Write(path, base string, program []byte, boot guest.Boot) (err error) {
	if len(program) == 0 {
		return fmt.Errorf("write initramfs %s: the guest program is empty", path)
	}
	words, err := json.Marshal(boot)
	if err != nil {
		return fmt.Errorf("write initramfs %s: %w", path, err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write initramfs: %w", err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(path)
			err = fmt.Errorf("write initramfs %s: %w", path, err)
		}
	}()
	if base != "" {
		if err := appendBase(f, base); err != nil {
			return err
		}
	}
	w := bufio.NewWriterSize(f, 1<<20)
	if err := archive(w, program, words); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}

// appendBase copies the image's part and pads it.
func appendBase(f *os.File, base string) error {
	in, err := os.Open(base)
	if err != nil {
		return err
	}
	defer in.Close()
	n, err := io.Copy(f, in) // by reflink where the file system can
	if err != nil {
		return fmt.Errorf("copy %s: %w", base, err)
	}
	if n == 0 {
		return errors.New(base + " is empty")
	}
	_, err = f.Write(make([]byte, -n&(align-1)))
	return err
}

// archive writes the boot archive.
func archive(out io.Writer, program, boot []byte) error {
	w := cpio.NewWriter(out)
	dirs := []string{"/dev"}
	for dir := path.Dir(guest.BootFile); dir != "/"; dir = path.Dir(dir) {
		dirs = append(dirs, dir)
	}
	for i := len(dirs) - 1; i >= 0; i-- {
		if err := w.Dir(strings.TrimPrefix(dirs[i], "/"), 0o755); err != nil {
			return err
		}
	}
	// Before it runs the program the kernel opens the console, and the program's runtime, where there is none yet, /dev/null in
	// its place; without either it does not start.
	return errors.Join(
		w.CharDevice("dev/console", 0o600, 5, 1),
		w.CharDevice("dev/null", 0o666, 1, 3),
		w.File(guest.InitPath, 0o755, program),
		w.File(guest.BootFile, 0o600, boot),
		w.Close(),
	)
}
