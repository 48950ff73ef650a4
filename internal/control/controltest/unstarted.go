package controltest

import (
	"errors"
	"io"
	"io/fs"
	"os/exec"

	"bromure.io/tui/vm/guest"
)

// unstarted is the [control.Stream] of a program that could not be started, as the real one learns only from the guest.
type unstarted struct {
	code int
	err  error
}

// startCode is the code that a shell gives.
func startCode(err error) int {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		return guest.NotFound
	}
	return guest.CannotRun
}

func (u unstarted) Stdin() io.WriteCloser   { return discard{} }
func (u unstarted) Stdout() io.Reader       { return emptyReader{} }
func (u unstarted) Stderr() io.Reader       { return emptyReader{} }
func (u unstarted) Resize(guest.Size) error { return nil }
func (u unstarted) Signal(string) error     { return nil }
func (u unstarted) Wait() (int, error)      { return u.code, u.err }
func (u unstarted) Close() error            { return nil }

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Close() error                { return nil }
