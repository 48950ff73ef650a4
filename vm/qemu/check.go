package qemu

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
)

// check says whether a command line can be made of spec. It looks at no file.
func check(spec vm.Spec) error {
	if err := spec.Workspace.Check(); err != nil {
		return err
	}
	switch spec.Accelerator {
	case vm.KVM, vm.Emulated:
	default:
		return fmt.Errorf("QEMU has no accelerator %q here", spec.Accelerator)
	}
	if strings.ContainsRune(spec.Cmdline, 0) {
		return errors.New("the kernel command line holds a NUL")
	}
	if spec.Lock == nil {
		return errors.New("the spec has no lock")
	}
	type file struct {
		what, path string
		needed     bool
	}
	overlay := spec.Workspace.DiskFormat == vm.QCOW2
	for _, f := range []file{
		{"the kernel", spec.Kernel, true},
		{"the initramfs", spec.Initrd, false},
		{"the disk", spec.Disk, overlay},
		{"the disk's base", spec.Backing, overlay},
		{"the home disk", spec.Home, false},
		{"the machine's directory", string(spec.Dir), true},
		{"the log", spec.Log, true},
	} {
		switch {
		case f.path == "" && !f.needed:
		case !filepath.IsAbs(f.path):
			return fmt.Errorf("%s needs an absolute path: %q", f.what, f.path)
		case strings.ContainsRune(f.path, 0):
			return fmt.Errorf("the path of %s holds a NUL: %q", f.what, f.path)
		}
	}
	return nil
}

const kvmGroupHint = "Join the group kvm and log in again: sudo usermod -aG kvm $USER"

// complaint turns QEMU's last words into an error for people. acc tells what the words are about.
func complaint(words string, acc vm.Accelerator) error {
	words = clean(words)
	err := errors.New(words)
	if words == "" {
		err = errors.New("it said nothing")
	}
	has := func(part string) bool { return strings.Contains(words, part) }
	const msg = "start QEMU"
	switch {
	case has(`Failed to get "write" lock`), has(`Failed to get shared "write" lock`), has("Is another process using the image"):
		return problem.Wrap(problem.Refused, err, "open the disks: another process uses one of them",
			"End the program that has the image open (a second QEMU, qemu-img, a backup).")
	case has("Could not access KVM kernel module: Permission denied"):
		return problem.Wrap(problem.Missing, err, msg, kvmGroupHint)
	case has("failed to initialize kvm"), acc == vm.KVM && has("KVM"):
		return problem.Wrap(problem.Missing, err, msg, "KVM does not work here: see bromure-cli doctor.")
	case has("cannot set up guest memory"), has("Cannot allocate memory"):
		return problem.Wrap(problem.Missing, err, msg, "The host has not that much memory: give the workspace less with --memory.")
	case has("No space left on device"):
		return problem.Wrap(problem.Missing, err, msg, "The disk is full: make room on it.")
	case has("Permission denied"):
		return problem.Wrap(problem.Missing, err, msg, "The files must belong to the user who starts the machine.")
	case has("seccomp"), has("sandbox"):
		return problem.Wrap(problem.Missing, err, msg, "This QEMU was built without seccomp: install your distribution's.")
	}
	return problem.Wrap(problem.Failed, err, msg, "")
}

// maxWords bounds how much of QEMU's output becomes part of an error, in bytes.
const maxWords = 2048

// clean keeps the last few lines, in printable characters.
func clean(words string) string {
	if len(words) > maxWords {
		words = words[len(words)-maxWords:]
	}
	var lines []string
	for l := range strings.Lines(strings.ToValidUTF8(words, "?")) {
		l = strings.TrimSpace(strings.Map(func(r rune) rune {
			if r < 0x20 || r >= 0x7f && r < 0xa0 {
				return ' '
			}
			return r
		}, l))
		if l != "" {
			lines = append(lines, l)
		}
	}
	return strings.Join(lines[max(0, len(lines)-4):], "; ")
}
