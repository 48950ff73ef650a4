//go:build linux

package sshd

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/pkg/sftp"
)

// RunSFTP serves the sftp protocol on in and out as the user of this process, until the client leaves. The
// guest program runs it when it is started with the argument "sftp", which [Server] does for the
// subsystem; relative paths begin at the home directory.
func RunSFTP(in io.Reader, out io.WriteCloser) error {
	var opts []sftp.ServerOption
	if home := os.Getenv("HOME"); home != "" {
		opts = append(opts, sftp.WithServerWorkingDirectory(home))
	}
	srv, err := sftp.NewServer(struct {
		io.Reader
		io.WriteCloser
	}{in, out}, opts...)
	if err != nil {
		return fmt.Errorf("serve sftp: %w", err)
	}
	if err := srv.Serve(); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("serve sftp: %w", err)
	}
	return nil
}
