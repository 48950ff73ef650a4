package initd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"bromure.io/tui/vm/guest"
	"bromure.io/tui/vm/guest/sysinfo"
)

// maxEtcFile bounds the files in /etc that are read, in bytes. A larger one is somebody's own and is left alone.
const maxEtcFile = 1 << 20

// configure gives the system its name, name server, time zone and time. Nothing here is worth stopping a boot for: what fails
// is told.
func configure(boot guest.Boot, net network, note func(string)) {
	try := func(what string, err error) {
		if err != nil {
			note(what + ": " + err.Error())
		}
	}
	try("set the host name", unix.Sethostname([]byte(boot.Hostname)))
	try("write /etc/hosts", rewrite("/etc/hosts", func(old string) (string, bool) {
		return mergeHosts(old, boot.Hostname)
	}))
	try("write /etc/resolv.conf", rewrite("/etc/resolv.conf", func(old string) (string, bool) {
		return mergeResolv(old, net.gateway)
	}))
	if boot.Timezone != "" {
		try("set the time zone", setZone("/etc/localtime", "/etc/timezone", boot.Timezone))
	}
	if clockBehind(time.Now(), boot.Now) {
		_, err := sysinfo.SetClock(boot.Now)
		try("set the clock", err)
	}
}

// rewrite replaces a file with what merge makes of it. A link is replaced by a file only where it leads nowhere, as
// the link to a service's file in /run does when that service is not there yet.
func rewrite(path string, merge func(old string) (string, bool)) error {
	target, err := filepath.EvalSymlinks(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		target = path
	case err != nil:
		return err
	}
	mode := os.FileMode(0o644)
	st, err := os.Lstat(target)
	var old []byte
	switch {
	case err == nil && st.Mode().IsRegular():
		if st.Size() > maxEtcFile {
			return fmt.Errorf("%d bytes are more than it should have", st.Size())
		}
		mode = st.Mode().Perm()
		if old, err = readFile(target, maxEtcFile); err != nil {
			return err
		}
	case err == nil && st.Mode().Type() != os.ModeSymlink:
		return errors.New("it is not a regular file")
	case err != nil && !errors.Is(err, os.ErrNotExist):
		return err
	}
	text, changed := merge(string(old))
	if !changed {
		return nil
	}
	tmp := target + ".bromure-new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(tmp, target)
	}
	if err != nil {
		_ = os.Remove(tmp)
	}
	return err
}

// setZone makes the link that the C library follows, and the file in which Debian has the same as text.
func setZone(link, text, name string) error {
	file := zoneFile(name)
	if file == "" {
		return fmt.Errorf("%q is not the name of a time zone", name)
	}
	if _, err := os.Stat(file); err != nil {
		return fmt.Errorf("the system does not know %q: %w", name, err)
	}
	if have, err := os.Readlink(link); err == nil && (have == file || filepath.Join(filepath.Dir(link), have) == file) {
		return nil
	}
	tmp := link + ".bromure-new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Symlink(file, tmp); err != nil {
		return err
	}
	if err := os.Rename(tmp, link); err != nil {
		return err
	}
	if _, err := os.Lstat(text); err != nil {
		return nil // a system without that file does not need it
	}
	return rewrite(text, func(old string) (string, bool) { return name + "\n", old != name+"\n" })
}
