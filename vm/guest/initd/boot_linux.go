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
	err := s.guarded()
	s.giveUp(err)
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

// guarded turns a panic into an error: when process 1 dies, the kernel panics and nobody learns why.
func (s *sequence) guarded() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("a bug in bromure-guest: %v", r)
		}
	}()
	return s.run()
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
	devices, err := newWaiter()
	if err != nil {
		return err
	}
	defer devices.close()
	s.done(guest.StepModules)

	if err := loadModules(); err != nil {
		return err
	}
	s.done(guest.StepNetwork)

	if s.net, err = parseNetwork(s.boot); err != nil {
		return err
	}
	if err := s.net.bringUp(devices); err != nil {
		return err
	}
	// The host's connection waits in the kernel from here on, instead of being refused and tried again.
	listener, err := s.net.listen()
	if err != nil {
		return err
	}
	defer listener.Close()
	s.done(guest.StepDisks)

	if err := s.disks(devices); err != nil {
		return err
	}
	s.done(guest.StepSSH)

	if s.environ, err = s.serve(s.boot, listener); err != nil {
		return err
	}
	s.done(guest.StepHandover)

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
	s.boot, err = parseBoot(b)
	return err
}

// probe proves to the host that this machine reached 64-bit user space.
func (s *sequence) probe() {
	s.console.Probe()
	powerOff()
}

// disks makes the root disk the root, mounts what belongs there, and home.
func (s *sequence) disks(devices *waiter) error {
	root, err := devices.findBySerial(s.boot.DiskSerial)
	if err != nil {
		return err
	}
	if err := mountRoot(root, s.console.Note); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Dir(guest.BootFile)); err != nil {
		return fmt.Errorf("remove what the initramfs brought: %w", err)
	}
	if err := switchRoot(); err != nil {
		return err
	}
	if err := errors.Join(mountAll(lateMounts()), linkDevices()); err != nil {
		return err
	}
	if s.boot.HomeSerial != "" {
		d, err := devices.findBySerial(s.boot.HomeSerial)
		if err != nil {
			return err
		}
		if err := mountHome(d, s.console.Note); err != nil {
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
