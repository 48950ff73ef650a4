package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"bromure.io/tui/vm/guest"
	"bromure.io/tui/vm/guest/report"
	"bromure.io/tui/vm/guest/sshd"
	"bromure.io/tui/vm/guest/sysinfo"
)

// maxBoot bounds the inherited boot file, in bytes.
const maxBoot = 1 << 20

// oomScore protects the server from the out-of-memory killer, and nearly for certain: it would cost every session. What
// it starts for a user is put back to 0 there.
const oomScore = "-900"

// runDir is where the server keeps what its successor has to know.
const (
	runDir     = "/run/bromure"
	bootedFile = runDir + "/booted" // it exists when the distribution's init has come up
)

// standbyAfter is when a standby is started at the latest: until then, starting the system needs the CPUs more.
const standbyAfter = 30 * time.Second

// server is the process.
type server struct {
	boot     guest.Boot
	file     *os.File
	listener *os.File
	notify   *os.File

	system  sysinfo.Reader
	power   sysinfo.Power
	log     *slog.Logger
	console *report.Console
	booted  atomic.Bool
	up      chan struct{} // closed when booted
	standby atomic.Int64  // process number of the standby
}

// Serve is the process of the server. failures counts the servers that died quickly before; first says that process 1 waits for
// the report that this one serves. It returns only on an error.
func Serve(first bool, failures int) error {
	var parent *os.File // process 1, waiting
	if first {
		parent = os.NewFile(fdPipe, "report")
		unix.CloseOnExec(fdPipe)
	}
	// What sessions start must not inherit these.
	for _, fd := range []int{fdBoot, fdListener, fdNotify} {
		unix.CloseOnExec(fd)
	}
	// A crash is told where the host looks. There is no standard error here.
	if f, err := os.OpenFile(report.Path, os.O_WRONLY|unix.O_NOCTTY, 0); err == nil {
		_ = debug.SetCrashOutput(f, debug.CrashOptions{})
		f.Close()
	}
	console := report.NewConsole(report.Path)
	s := &server{
		file:     os.NewFile(fdBoot, "boot"),
		listener: os.NewFile(fdListener, "listener"),
		notify:   os.NewFile(fdNotify, "notify"),
		log:      slog.New(slog.NewTextHandler(console, nil)),
		console:  console,
		up:       make(chan struct{}),
	}
	s.power = sysinfo.Power{Sessions: sysinfo.SessionGroup, Init: initIsForeign, Log: console.Note}
	err := s.serve(failures, func() {
		if first {
			_, _ = io.WriteString(parent, readyLine)
			parent.Close()
		}
	})
	if first {
		fmt.Fprintln(parent, err) // it is closed, and this fails, when process 1 has its report
	}
	return err
}

func (s *server) serve(failures int, ready func()) error {
	cfg, err := s.configure()
	if err != nil {
		return err
	}
	ln, err := net.FileListener(s.listener)
	if err != nil {
		return fmt.Errorf("take over the listener: %w", err)
	}
	sshServer, err := sshd.New(cfg)
	if err != nil {
		return err
	}
	ready()
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte(oomScore), 0)
	go s.watchInit()
	go func() {
		select {
		case <-s.up:
		case <-time.After(standbyAfter):
		}
		s.keepStandby(failures)
	}()
	if err = sshServer.Serve(context.Background(), ln); err == nil {
		err = errors.New("the listener was closed")
	}
	return fmt.Errorf("serve SSH: %w", err)
}

// configure reads the boot file and makes the SSH server's configuration of it.
func (s *server) configure() (sshd.Config, error) {
	var err error
	if s.boot, err = readBoot(s.file); err != nil {
		return sshd.Config{}, fmt.Errorf("read the boot file: %w", err)
	}
	host, err := ssh.ParsePrivateKey([]byte(s.boot.HostKey))
	if err != nil {
		return sshd.Config{}, fmt.Errorf("read the host key: %w", err)
	}
	client, _, _, _, err := ssh.ParseAuthorizedKey([]byte(s.boot.ClientKey))
	if err != nil {
		return sshd.Config{}, fmt.Errorf("read the client's key: %w", err)
	}
	gateway, err := netip.ParseAddr(s.boot.Gateway)
	if err != nil {
		return sshd.Config{}, fmt.Errorf("read the gateway's address: %w", err)
	}
	return sshd.Config{
		HostKey:   host,
		ClientKey: client,
		From:      gateway, // nothing in the guest gets in by the host's door
		Cgroup:    sysinfo.SessionGroup,
		Env:       s.boot.Env,
		Calls:     s.call,
		Log:       s.log,
	}, nil
}

// readBoot reads the inherited boot file. Its position is shared with other processes and left alone.
func readBoot(f *os.File) (boot guest.Boot, err error) {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, maxBoot))
	if err == nil {
		err = json.Unmarshal(b, &boot)
	}
	return boot, err
}

// watchInit waits for the distribution's init to come up and tells the host.
func (s *server) watchInit() {
	if _, err := os.Stat(bootedFile); err == nil { // an earlier server saw it
		s.booted.Store(true)
		close(s.up)
		return
	}
	if err := waitReady(s.notify); err != nil {
		s.log.Warn("no news of the distribution's init", "err", err)
		return
	}
	s.booted.Store(true)
	close(s.up)
	s.console.Step(guest.StepHandover)
	if err := os.MkdirAll(runDir, 0o700); err == nil {
		_ = os.WriteFile(bootedFile, nil, 0o600)
	}
}

// own are the processes of this program, whose ports are no news to the host.
func (s *server) own() []int {
	return []int{os.Getpid(), int(s.standby.Load())}
}

// initIsForeign says whether process 1 is no longer this program.
func initIsForeign() bool {
	var one, me unix.Stat_t
	if unix.Stat("/proc/1/exe", &one) != nil || unix.Stat(self, &me) != nil {
		return true
	}
	return one.Dev != me.Dev || one.Ino != me.Ino
}
