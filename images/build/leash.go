package build

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// leashScript runs its arguments until they end or descriptor 3 does; then it asks all processes of its group to end. mmdebstrap
// ignores SIGTERM while its parts work, and removes its tree when those were asked too, as they are by a terminal. Descriptor 4
// is the reading end of stderr: as long as it is open here, what is said while we are gone kills nobody.
const leashScript = `trap : TERM
"$@" 3<&- 4<&- & main=$!
{ trap - TERM; read -r _ <&3; kill -TERM 0; } >/dev/null 2>&1 & watch=$!
while wait $main; code=$?; kill -0 $main 2>/dev/null; do :; done
kill $watch 2>/dev/null
exit $code`

// patience is how long a program may take to clean up after it was asked to end.
const patience = 30 * time.Second

// leash is a command that, with everything it starts, is asked to end when its context is done, and also when this process
// is killed: the kernel then closes our end of a pipe.
type leash struct {
	*exec.Cmd
	heard chan struct{} // closed when stderr has ended
	files []*os.File
}

// onLeash prepares a command whose stderr is copied to hear.
func onLeash(ctx context.Context, hear io.Writer, name string, args ...string) (*leash, error) {
	read, hold, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	errRead, errWrite, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, read.Close(), hold.Close())
	}
	l := &leash{
		Cmd:   exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", leashScript, "sh", name}, args...)...),
		heard: make(chan struct{}),
		files: []*os.File{read, hold, errRead, errWrite},
	}
	l.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	ownMounts(l.SysProcAttr)
	l.Stderr = errWrite
	l.ExtraFiles = []*os.File{read, errRead}
	l.Cancel = hold.Close
	l.WaitDelay = patience
	go func() {
		defer close(l.heard)
		_, _ = io.Copy(hear, errRead)
	}()
	return l, nil
}

// run starts the command and waits until it and everything it started has ended.
func (l *leash) run() error {
	err := l.Start()
	_ = l.files[3].Close() // else its end would never come
	if err == nil {
		err = l.Wait()
		if ws, ok := l.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL {
			// It did not end for all our patience. What is left of it keeps the group's number in use.
			_ = syscall.Kill(-l.Process.Pid, syscall.SIGKILL)
		}
	}
	<-l.heard
	for _, f := range l.files {
		_ = f.Close()
	}
	return err
}
