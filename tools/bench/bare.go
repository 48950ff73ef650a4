package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"

	"bromure.io/tui/internal/cpio"
	"bromure.io/tui/internal/layout"
)

// userSpace is what tools/bench/benchguest prints first.
const userSpace = "BENCH-USER-SPACE"

// bare boots the image's kernel by a QEMU line of its own, with none of our machinery: the reference.
type bare struct {
	kernel string
	first  string // initramfs with nothing but benchguest: to the first output
	full   string // with the image's drivers as well
}

// newBare builds benchguest and packs the two archives.
func (b *bench) newBare(ctx context.Context) (*bare, error) {
	image := layout.ImageDir(b.image)
	r := &bare{
		kernel: image.Kernel(),
		first:  filepath.Join(b.work, "first.cpio"),
		full:   filepath.Join(b.work, "full.cpio"),
	}
	program := filepath.Join(b.work, "benchguest")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", program, "./tools/bench/benchguest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+runtime.GOARCH)
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the guest of the measurement: %w: %s", err, out)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	if err := pack(r.first, "", data); err != nil {
		return nil, err
	}
	return r, pack(r.full, image.Initrd(), data)
}

// pack writes an initramfs: the archive base, if there is one, and /init.
func pack(path, base string, program []byte) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() {
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}()
	if base != "" {
		in, err := os.Open(base)
		if err != nil {
			return err
		}
		defer in.Close()
		if _, err := io.Copy(f, in); err != nil {
			return err
		}
	}
	w := cpio.NewWriter(f)
	for _, dir := range []string{"dev", "proc", "sys"} {
		if err := w.Dir(dir, 0o755); err != nil {
			return err
		}
	}
	if err := w.CharDevice("dev/console", 0o600, 5, 1); err != nil {
		return err
	}
	if err := w.File("init", 0o755, program); err != nil {
		return err
	}
	return w.Close()
}

// command is the bare line. extra goes on the kernel's command line, args to QEMU.
func (r *bare) command(ctx context.Context, accel, initrd, extra string, args ...string) *exec.Cmd {
	program, machine, cpu, console := "qemu-system-x86_64", "q35", "max", "ttyS0"
	if runtime.GOARCH == "arm64" {
		program, machine, console = "qemu-system-aarch64", "virt", "ttyAMA0"
	}
	if accel == "kvm" {
		cpu = "host"
	} else {
		accel = "tcg"
	}
	line := []string{
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-serial", "stdio",
		"-machine", machine, "-accel", accel, "-cpu", cpu, "-smp", strconv.Itoa(machineCPUs), "-m", strconv.Itoa(machineGB) + "G",
		"-kernel", r.kernel, "-initrd", initrd, "-append", "console=" + console + " quiet panic=-1 " + extra,
	}
	return exec.CommandContext(ctx, program, append(line, args...)...)
}

// accelerator is what the daemon proved to work here: the same for both sides.
func (in *install) accelerator(ctx context.Context) (string, error) {
	out, err := in.cli(ctx, "doctor", "-o", "json")
	if err != nil {
		return "", err
	}
	var report struct {
		Capabilities struct {
			Accelerator string `json:"accelerator"`
		} `json:"capabilities"`
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		return "", fmt.Errorf("read the answer of doctor: %w", err)
	}
	if report.Capabilities.Accelerator == "" {
		return "", fmt.Errorf("doctor names no accelerator: %s", out)
	}
	return report.Capabilities.Accelerator, nil
}
