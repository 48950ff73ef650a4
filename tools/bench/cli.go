package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// install is a data root of a measurement's own, with the image in it, driven by the real programs.
type install struct {
	b   *bench
	dir string // holds root, home and run
}

// newInstall makes one below the bench's folder. The caller calls its close.
func (b *bench) newInstall() (*install, error) {
	dir, err := os.MkdirTemp(b.work, "i")
	if err != nil {
		return nil, err
	}
	in := &install{b: b, dir: dir}
	images := filepath.Join(in.root(), "images")
	for _, d := range []string{images, filepath.Join(dir, "run")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, err
		}
	}
	to := filepath.Join(images, filepath.Base(b.image))
	if exec.Command("cp", "-al", b.image, to).Run() == nil {
		return in, nil
	}
	if out, err := exec.Command("cp", "-a", "--sparse=always", "--reflink=auto", b.image, to).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("copy the image: %w: %s", err, out)
	}
	return in, nil
}

func (in *install) root() string { return filepath.Join(in.dir, "root") }

// close stops what runs.
func (in *install) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := in.cli(ctx, "daemon", "stop", "--machines")
	return err
}

func (in *install) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(in.b.bin, "bromure-cli"), args...)
	cmd.Env = append(os.Environ(),
		"HOME="+in.dir, "BROMURE_HOME="+in.root(), "XDG_RUNTIME_DIR="+filepath.Join(in.dir, "run"))
	return cmd
}

// cli runs a command to its end and returns its output.
func (in *install) cli(ctx context.Context, args ...string) (string, error) {
	cmd := in.command(ctx, args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("bromure-cli %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(errs.Bytes()))
	}
	return string(out), nil
}

// untilLine runs a command and returns how long it took to print a line that contains marker, in milliseconds.
// The command is then left to end by itself.
func untilLine(cmd *exec.Cmd, marker string) (ms float64, err error) {
	var errs bytes.Buffer
	if cmd.Stderr == nil {
		cmd.Stderr = &errs
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	var seen []byte
	buf := make([]byte, 4096)
	for {
		n, err := out.Read(buf)
		seen = append(seen, buf[:n]...)
		if ms == 0 && bytes.Contains(seen, []byte(marker)) {
			ms = float64(time.Since(start)) / float64(time.Millisecond)
		}
		if err != nil {
			break // the command has closed its output
		}
	}
	err = cmd.Wait()
	if ms == 0 {
		return 0, errors.Join(fmt.Errorf("%s never printed %q: %s", filepath.Base(cmd.Path), marker, bytes.TrimSpace(errs.Bytes())), err)
	}
	return ms, err
}

// daemonPID asks the daemon, and so starts it when there is none.
func (in *install) daemonPID(ctx context.Context) (int, error) {
	if _, err := in.cli(ctx, "workspaces", "ls"); err != nil {
		return 0, err
	}
	out, err := in.cli(ctx, "daemon", "status", "-o", "json")
	if err != nil {
		return 0, err
	}
	var health struct{ PID int }
	if err := json.Unmarshal([]byte(out), &health); err != nil || health.PID == 0 {
		return 0, fmt.Errorf("daemon status says no process: %s", out)
	}
	return health.PID, nil
}
