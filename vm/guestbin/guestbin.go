// Package guestbin has the guest program (cmd/bromure-guest) inside the host's: the two are built together, so that
// their versions cannot drift apart.
package guestbin

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"bromure.io/tui/internal/problem"
)

//go:embed all:bin
var bin embed.FS

// Binary is the guest program for an architecture, as Go names it. The bytes belong to the caller.
func Binary(arch string) ([]byte, error) { return binary(bin, arch) }

func binary(files fs.FS, arch string) ([]byte, error) {
	name := "bromure-guest-linux-" + arch
	b, err := fs.ReadFile(files, path.Join("bin", name))
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrInvalid):
		return nil, problem.New(problem.Missing, fmt.Sprintf("this program was built without the guest program for %q", arch),
			"Build it with: make build")
	case err != nil:
		return nil, fmt.Errorf("read the guest program: %w", err)
	case len(b) == 0:
		return nil, problem.New(problem.Missing, "the guest program in this program is empty", "Build it again with: make build")
	}
	return b, nil
}
