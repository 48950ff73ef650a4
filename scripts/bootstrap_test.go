// Package scripts tests the scripts that a newcomer meets first.
package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// host is a fake host: a folder of programs that is the whole PATH, and a log of what the package manager was asked.
type host struct {
	t        *testing.T
	bin, log string
}

func newHost(t *testing.T) *host {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("package managers of Linux")
	}
	dir := t.TempDir()
	h := &host{t: t, bin: filepath.Join(dir, "bin"), log: filepath.Join(dir, "log")}
	if err := os.Mkdir(h.bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bash", "env", "dirname", "awk", "uname"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(h.bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	h.program("go", `[ "$2" = GOVERSION ] && echo go1.99.1 || echo local`)
	h.program("apt-get", `echo "apt-get $*" >> `+h.log)
	h.program("id", "echo 0")
	for _, name := range []string{"qemu-system-x86_64", "qemu-system-aarch64", "qemu-img", "mmdebstrap", "mke2fs", "newuidmap", "ssh", "cc", "ps", "mkfs.btrfs", "mkfs.xfs"} {
		h.program(name, "exit 0")
	}
	return h
}

func (h *host) program(name, script string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.bin, name), []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) remove(name string) {
	h.t.Helper()
	if err := os.Remove(filepath.Join(h.bin, name)); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) bootstrap(args ...string) (output string, code int, asked string) {
	h.t.Helper()
	cmd := exec.Command(filepath.Join(h.bin, "bash"), append([]string{"./bootstrap"}, args...)...)
	cmd.Env = []string{"PATH=" + h.bin, "HOME=/nonexistent"}
	out, err := cmd.CombinedOutput()
	if _, exited := err.(*exec.ExitError); err != nil && !exited {
		h.t.Fatal(err)
	}
	log, _ := os.ReadFile(h.log)
	return string(out), cmd.ProcessState.ExitCode(), string(log)
}

// keyring skips where the one probe that is a path, and not a program, would be missing.
func keyring(t *testing.T) {
	if _, err := os.Stat("/usr/share/keyrings/debian-archive-keyring.gpg"); err != nil {
		t.Skip("this host has no Debian keyring: bootstrap would ask for it")
	}
}

func TestBootstrapIsSilentWhenAllIsThere(t *testing.T) {
	h := newHost(t)
	keyring(t)
	if out, code, asked := h.bootstrap("--tests"); code != 0 || out != "" || asked != "" {
		t.Errorf("exit %d, asked %q\n%s", code, asked, out)
	}
}

func TestBootstrapInstallsExactlyWhatIsMissing(t *testing.T) {
	h := newHost(t)
	keyring(t)
	h.remove("mmdebstrap")
	h.remove("qemu-img")
	h.remove("cc") // only tests need it
	out, code, asked := h.bootstrap()
	if code != 0 {
		t.Errorf("exit %d\n%s", code, out)
	}
	if want := "apt-get update -q\napt-get install -q -y --no-install-recommends qemu-utils mmdebstrap\n"; asked != want {
		t.Errorf("asked %q, want %q", asked, want)
	}
	for _, want := range []string{"missing: mmdebstrap (collects", "package qemu-utils", "running: apt-get update"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestBootstrapWithoutRightsSaysWhatToRun(t *testing.T) {
	h := newHost(t)
	keyring(t)
	h.remove("qemu-img")
	h.program("id", "echo 1000")
	out, code, asked := h.bootstrap()
	if code != 1 || asked != "" || !strings.Contains(out, "apt-get install -q -y --no-install-recommends qemu-utils") {
		t.Errorf("exit %d, asked %q\n%s", code, asked, out)
	}
	h.program("sudo", `echo "sudo $*" >> `+h.log)
	if out, code, asked = h.bootstrap(); code != 0 || !strings.Contains(asked, "sudo -n env DEBIAN_FRONTEND=noninteractive apt-get install") {
		t.Errorf("with sudo: exit %d, asked %q\n%s", code, asked, out)
	}
}

func TestBootstrapOnUnknownSystemNamesWhatIsMissing(t *testing.T) {
	h := newHost(t)
	h.remove("apt-get")
	h.remove("qemu-img")
	if out, code, _ := h.bootstrap(); code != 1 || !strings.Contains(out, "qemu-img (makes disk overlays") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

func TestBootstrapFailsWhenTheInstallationDoes(t *testing.T) {
	h := newHost(t)
	h.remove("qemu-img")
	h.program("apt-get", `case $2 in -q) exit 100;; esac`) // both update and install
	if out, code, _ := h.bootstrap(); code != 1 || !strings.Contains(out, "the installation failed") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

func TestBootstrapWantsGo(t *testing.T) {
	for version, good := range map[string]bool{"1.26.6": false, "1.9": false, "1.25.9": false, "1.26.7": true, "1.26.10": true, "1.27": true, "2.0": true, "1.27rc1": true} {
		h := newHost(t)
		keyring(t)
		h.program("go", `[ "$2" = GOVERSION ] && echo go`+version+` || echo local`)
		out, code, _ := h.bootstrap()
		if (code == 0) != good || good != (out == "") {
			t.Errorf("go %s: exit %d\n%s", version, code, out)
		}
	}
	h := newHost(t)
	h.remove("go")
	if out, code, _ := h.bootstrap(); code != 1 || !strings.Contains(out, "Go is not on the PATH") {
		t.Errorf("no go: exit %d\n%s", code, out)
	}
}
