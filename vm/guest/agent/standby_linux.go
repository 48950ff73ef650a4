package agent

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of taking over. A server that lived for healthy is worth an immediate successor; one after the other
// that dies sooner, each waits a little longer.
const (
	healthy    = 10 * time.Second
	perFailure = 500 * time.Millisecond
	maxDelay   = 10 * time.Second
)

// Standby waits until its server is gone and becomes the next one. failures counts the ones that died quickly before.
func Standby(failures int) error {
	began := time.Now()
	_, err := io.Copy(io.Discard, os.NewFile(fdPipe, "server"))
	if err != nil {
		return fmt.Errorf("watch the server: %w", err)
	}
	failures, delay := takeOver(failures, time.Since(began))
	time.Sleep(delay)
	// The inherited files stay open; the pipe was ours alone.
	unix.CloseOnExec(fdPipe)
	err = unix.Exec(self, []string{name, Command, strconv.Itoa(failures)}, nil)
	return fmt.Errorf("become the server: %w", err)
}

// takeOver says how many servers in a row died quickly, with one that lived that long as the last, and how long to wait.
func takeOver(before int, lived time.Duration) (failures int, delay time.Duration) {
	if lived >= healthy {
		return 0, 0
	}
	failures = before + 1
	return failures, min(time.Duration(failures-1)*perFailure, maxDelay)
}

// keepStandby has a standby beside this server for as long as it lives. log is told when one had to be replaced.
func (s *server) keepStandby(failures int) {
	for {
		began := time.Now()
		err := s.runStandby(failures)
		s.log.Warn("the standby ended", "err", err)
		if lived := time.Since(began); lived < healthy {
			time.Sleep(healthy - lived)
		}
	}
}

// runStandby starts a standby and returns when it has ended, which it does not do by itself.
func (s *server) runStandby(failures int) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer w.Close() // this end is closed by our death
	cmd := exec.Command(self)
	cmd.Args = []string{name, StandbyCommand, strconv.Itoa(failures)}
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{s.file, s.listener, s.notify, r}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	r.Close()
	if err != nil {
		return err
	}
	s.standby.Store(int64(cmd.Process.Pid))
	defer s.standby.Store(0)
	return cmd.Wait()
}
