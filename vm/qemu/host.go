package qemu

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"bromure.io/tui/internal/problem"
)

// The oldest QEMU that has -netdev dgram.
const minMajor, minMinor = 7, 2

// versionTimeout bounds "qemu --version", which takes 20 ms on an idle computer.
const versionTimeout = 10 * time.Second

// emulators names QEMU's program for each architecture that we run on.
var emulators = map[string]string{
	"amd64": "qemu-system-x86_64",
	"arm64": "qemu-system-aarch64",
}

// packages names the package with the emulator, by the package manager's program.
var packages = []struct{ tool, amd64, arm64 string }{
	{"apt-get", "sudo apt install qemu-system-x86", "sudo apt install qemu-system-arm"},
	{"dnf", "sudo dnf install qemu-system-x86-core", "sudo dnf install qemu-system-aarch64-core"},
	{"pacman", "sudo pacman -S qemu-system-x86", "sudo pacman -S qemu-system-aarch64"},
	{"zypper", "sudo zypper install qemu-x86", "sudo zypper install qemu-arm"},
	{"apk", "sudo apk add qemu-system-x86_64", "sudo apk add qemu-system-aarch64"},
	{"nix-env", "nix profile install nixpkgs#qemu", "nix profile install nixpkgs#qemu"},
}

// findHost looks for QEMU in the directories of path.
func findHost(arch, path string) (Host, error) {
	name, ok := emulators[arch]
	if !ok {
		return Host{}, problem.New(problem.Missing, "run machines on "+arch+": only amd64 and arm64 are supported", "")
	}
	if bin := lookPath(name, path); bin != "" {
		return Host{Arch: arch, Binary: bin}, nil
	}
	return Host{}, problem.New(problem.Missing, name+" is not installed", installHint(arch, path))
}

// lookPath is exec.LookPath for a PATH that need not be this process's. Relative entries do not count.
func lookPath(name, path string) string {
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		p := filepath.Join(dir, name)
		if fi, err := os.Stat(p); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
			return p
		}
	}
	return ""
}

// installHint says how to get QEMU with the package manager that is there.
func installHint(arch, path string) string {
	for _, p := range packages {
		if lookPath(p.tool, path) == "" {
			continue
		}
		if arch == "arm64" {
			return p.arm64
		}
		return p.amd64
	}
	return fmt.Sprintf("Install QEMU %d.%d or newer with %s in PATH.", minMajor, minMinor, emulators[arch])
}

var versionLine = regexp.MustCompile(`^QEMU emulator version ((\d+)\.(\d+)[^\s]*)(?: \(([^)]*)\))?`)

// parseVersion reads the first line of "qemu --version": for people "7.2.22 (Debian 1:7.2+dfsg-7)".
func parseVersion(out string) (version string, major, minor int, err error) {
	m := versionLine.FindStringSubmatch(out)
	if m == nil {
		return "", 0, 0, fmt.Errorf("it calls itself %.80q", out)
	}
	major, err1 := strconv.Atoi(m[2])
	minor, err2 := strconv.Atoi(m[3])
	if err := errors.Join(err1, err2); err != nil {
		return "", 0, 0, err
	}
	version = m[1]
	if m[4] != "" {
		version += " (" + m[4] + ")"
	}
	return version, major, minor, nil
}

// askVersion runs QEMU for its version and refuses one that is too old.
func askVersion(ctx context.Context, h Host, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.Binary, "--version")
	cmd.Env = childEnv()
	cmd.Dir = "/"
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return "", problem.Wrap(problem.Missing, err, "run "+h.Binary+" --version", "Install QEMU again: "+installHint(h.Arch, path))
	}
	version, major, minor, err := parseVersion(string(out))
	if err != nil {
		return "", problem.Wrap(problem.Missing, err, "read the version of "+h.Binary, installHint(h.Arch, path))
	}
	if major < minMajor || major == minMajor && minor < minMinor {
		return "", problem.New(problem.Missing,
			fmt.Sprintf("QEMU %s is too old: it takes %d.%d or newer", version, minMajor, minMinor), installHint(h.Arch, path))
	}
	return version, nil
}

// hasQBoot asks QEMU where its firmware lies, and looks for qboot there. Distributions leave it out or
// have it in a package of its own.
func hasQBoot(ctx context.Context, h Host) bool {
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, h.Binary, "-L", "help")
	cmd.Env = childEnv()
	cmd.Dir = "/"
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil || len(out) > 64<<10 {
		return false
	}
	for dir := range strings.Lines(string(out)) {
		if fi, err := os.Stat(filepath.Join(strings.TrimRight(dir, "\r\n"), qboot)); err == nil && fi.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// childEnv is all that QEMU sees of an environment: messages in English, and no place for a plug-in
// or a preloaded library to come from.
func childEnv() []string {
	return []string{"LC_ALL=C", "PATH=/usr/local/bin:/usr/bin:/bin"}
}
