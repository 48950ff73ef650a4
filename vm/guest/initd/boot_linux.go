package initd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"bromure.io/tui/vm/guest"
	"bromure.io/tui/vm/guest/report"
	"bromure.io/tui/vm/guest/sysinfo"
)

// distributionInit is the program that process 1 becomes.
const distributionInit = "/sbin/init"

// Server starts the SSH server on an open listener, as a process of its own that outlives this one, and returns when it serves.
// environ is added to the environment of the distribution's init.
type Server func(boot guest.Boot, listener *os.File) (environ []string, err error)

// Main is process 1, from the kernel's start to the distribution's init. It never returns.
func Main(serve Server) {
	debug.SetGCPercent(-1) // it lives for a second
	s := &sequence{serve: serve, console: report.NewConsole(report.Path), step: guest.StepKernel}
	s.giveUp(guard(s.run))
}

// sequence is one boot: the steps in their order, with what the later ones need of the earlier ones.
type sequence struct {
	serve   Server
	console *report.Console
	step    guest.Step // the one at work
	boot    guest.Boot
	net     network
	environ []string
}

func (s *sequence) run() error {
	if err := mountAll(earlyMounts()); err != nil {
		return err
	}
	if err := s.read(); err != nil {
		return err
	}
	if s.boot.Mode == guest.Probe {
		s.probe()
	}
	if err := disableIPv6("/proc/sys/net/ipv6/conf"); err != nil {
		return err
	}
	// Drivers go on loading while those that have loaded are used: only the card and the disks are waited for.
	s.done(guest.StepModules)
	modules, err := openModules(filepath.Dir(guest.ModulesOrder), filepath.Base(guest.ModulesOrder))
	if err != nil {
		return err
	}
	loading := begin(modules.load)
	devices, err := s.await(loading)
	if err != nil {
		return err
	}
	s.done(guest.StepNetwork)

	// Two processors, two things to do. The first touches no file, since the second changes the root.
	var listener *os.File
	network := begin(func() (err error) {
		listener, err = s.net.bringUp(devices.card)
		return err
	})
	disks := begin(func() error { return s.disks(devices) })
	if err := network.wait(); err != nil {
		_ = disks.wait() // one of the two errors is enough
		return err
	}
	defer listener.Close()
	s.done(guest.StepDisks)

	if err := disks.wait(); err != nil {
		return err
	}
	s.done(guest.StepSSH)

	if s.environ, err = s.serve(s.boot, listener); err != nil {
		return err
	}
	s.done(guest.StepHandover)

	if err := loading.wait(); err != nil {
		s.console.Note(err.Error()) // of a driver that this boot could do without
	}
	// The server reports this step itself, when the distribution's init has come up.
	return become(distributionInit, s.environ)
}

// done reports the step at work as finished and names the next.
func (s *sequence) done(next guest.Step) {
	s.console.Step(s.step)
	s.step = next
}

// read takes what the host handed over, and removes it: it has keys in it.
func (s *sequence) read() error {
	b, err := readFile(guest.BootFile, maxBootFile)
	if err != nil {
		return fmt.Errorf("read the boot file: %w", err)
	}
	if err := os.Remove(guest.BootFile); err != nil {
		return fmt.Errorf("remove the boot file: %w", err)
	}
	if s.boot, err = parseBoot(b); err != nil || s.boot.Mode == guest.Probe {
		return err
	}
	s.net, err = parseNetwork(s.boot)
	return err
}

// probe proves to the host that this machine reached 64-bit user space.
func (s *sequence) probe() {
	s.console.Probe()
	powerOff()
}

// devices are the parts of the machine that a boot needs.
type devices struct {
	card       int // index of the interface
	root, home disk
}

// await waits for the devices. A driver that does not load ends the wait. When a device is missing, the step that
// needs it has failed.
func (s *sequence) await(loading *task) (d devices, err error) {
	w, err := newWaiter()
	if err != nil {
		return d, err
	}
	defer w.close()
	missing := s.step
	find := begin(func() (err error) {
		if d.card, err = w.findCard(s.net.mac); err != nil {
			missing = guest.StepNetwork
			return err
		}
		if d.root, err = w.findDisk(s.boot.DiskSerial); err == nil && s.boot.HomeSerial != "" {
			d.home, err = w.findDisk(s.boot.HomeSerial)
		}
		if err != nil {
			missing = guest.StepDisks
		}
		return err
	})
	select {
	case <-find.done:
	case <-loading.done:
		if err := loading.wait(); err != nil {
			return devices{}, err
		}
	}
	if err := find.wait(); err != nil {
		s.done(missing)
		return devices{}, err
	}
	return d, nil
}

// disks makes the root disk the root, mounts what belongs there, and home.
func (s *sequence) disks(d devices) error {
	if err := mountRoot(d.root, s.console.Note); err != nil {
		return err
	}
	if err := switchRoot(); err != nil {
		return err
	}
	if err := errors.Join(mountAll(lateMounts()), linkDevices()); err != nil {
		return err
	}
	if s.boot.HomeSerial != "" {
		if err := mountHome(d.home, s.console.Note); err != nil {
			return err
		}
	}
	// A home without the files of /etc/skel is still a home.
	h := home{dir: guest.HomeDir, skel: "/etc/skel", uid: guest.UserID, gid: guest.UserID, mark: homeMark}
	if err := h.setUp(); err != nil {
		s.console.Note(err.Error())
	}
	configure(s.boot, s.net, s.console.Note)
	return nil
}

// giveUp tells the host why this boot failed and turns the machine off, with what was mounted clean.
func (s *sequence) giveUp(err error) {
	s.console.Error(s.step, err)
	powerOff()
}

// powerOff turns the machine off. Where that is not possible it stays still, for the host to see.
func powerOff() {
	_ = sysinfo.Force(sysinfo.PowerOff)
	for {
		time.Sleep(time.Hour)
	}
}

// become replaces this process.
func become(path string, environ []string) error {
	env := append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "TERM=linux"}, environ...)
	return fmt.Errorf("start %s: %w", path, unix.Exec(path, []string{path}, env))
}
