package qemu

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
)

// bin makes a directory with programs in it.
func bin(t *testing.T, programs map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, script := range programs {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFindHost(t *testing.T) {
	qemu := bin(t, map[string]string{"qemu-system-x86_64": "", "qemu-system-aarch64": ""})
	for arch, name := range emulators {
		h, err := findHost(arch, "relative:/none:"+qemu)
		if err != nil || h.Binary != filepath.Join(qemu, name) || h.Arch != arch {
			t.Errorf("%s: %+v, %v", arch, h, err)
		}
	}
	if _, err := findHost("riscv64", qemu); problem.KindOf(err) != problem.Missing {
		t.Errorf("riscv64: %v", err)
	}
}

// Whoever has no QEMU is told how to get it with the package manager that is there.
func TestInstallHints(t *testing.T) {
	for tool, want := range map[string]string{
		"apt-get": "apt install qemu-system-x86",
		"dnf":     "dnf install qemu-system-x86-core",
		"pacman":  "pacman -S qemu-system-x86",
		"zypper":  "zypper install qemu-x86",
		"apk":     "apk add qemu-system-x86_64",
		"nix-env": "nixpkgs#qemu",
		"other":   "Install QEMU 7.2 or newer",
	} {
		_, err := findHost("amd64", bin(t, map[string]string{tool: ""}))
		if problem.KindOf(err) != problem.Missing || !strings.Contains(problem.HintOf(err), want) {
			t.Errorf("%s: %v, hint %q", tool, err, problem.HintOf(err))
		}
	}
	if got := installHint("arm64", bin(t, map[string]string{"apt-get": ""})); !strings.Contains(got, "qemu-system-arm") {
		t.Errorf("arm64: %q", got)
	}
}

func TestParseVersion(t *testing.T) {
	for in, want := range map[string]string{
		"QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)\nCopyright": "7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3) 7 2",
		"QEMU emulator version 10.1.0\n":                                            "10.1.0 10 1",
		"QEMU emulator version 9.2.50 (v9.2.0-1-gabc)":                              "9.2.50 (v9.2.0-1-gabc) 9 2",
		"QEMU emulator version 8.0rc1":                                              "8.0rc1 8 0",
	} {
		v, major, minor, err := parseVersion(in)
		if got := fmt.Sprint(v, " ", major, " ", minor); err != nil || got != want {
			t.Errorf("%q: %s, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "qemu-img version 7.2", "QEMU emulator version x", "QEMU emulator version 99999999999999999999.1"} {
		if _, _, _, err := parseVersion(in); err == nil {
			t.Errorf("%q passes", in)
		}
	}
}

func TestAskVersionRefuses(t *testing.T) {
	for script, want := range map[string]string{
		"echo QEMU emulator version 7.1.0": "too old",
		"echo QEMU emulator version 6.2.0": "too old",
		"echo something else":              "calls itself",
		"exit 127":                         "exit status 127",
	} {
		dir := bin(t, map[string]string{"qemu": script})
		_, err := askVersion(context.Background(), Host{Arch: "amd64", Binary: filepath.Join(dir, "qemu")}, dir)
		if problem.KindOf(err) != problem.Missing || !strings.Contains(err.Error(), want) || problem.HintOf(err) == "" {
			t.Errorf("%s: %v, hint %q", script, err, problem.HintOf(err))
		}
	}
}

// The fast firmware is used where QEMU itself would find it.
func TestHasQBoot(t *testing.T) {
	with, without := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(with, qboot), []byte("rom"), 0o600); err != nil {
		t.Fatal(err)
	}
	for script, want := range map[string]bool{
		"echo " + without + "; echo " + with: true,
		"echo " + without:                    false,
		"exit 1":                             false,
		"":                                   false,
	} {
		dir := bin(t, map[string]string{"qemu": script})
		if got := hasQBoot(t.Context(), Host{Binary: filepath.Join(dir, "qemu")}); got != want {
			t.Errorf("%q: %v", script, got)
		}
	}
}

// QEMU's words become errors that say what to do.
func TestComplaint(t *testing.T) {
	for words, want := range map[string]struct {
		kind problem.Kind
		in   string
	}{
		`qemu: -blockdev …: Failed to get "write" lock` + "\nIs another process using the image [/x]?": {problem.Refused, "another process uses one of them"},
		"Could not access KVM kernel module: Permission denied\nfailed to initialize kvm":              {problem.Missing, "Permission denied"},
		"qemu: failed to initialize kvm: No such file":                                                 {problem.Missing, "kvm"},
		"qemu: cannot set up guest memory 'pc.ram': Cannot allocate memory":                            {problem.Missing, "memory"},
		"qemu: Could not open '/x': Permission denied":                                                 {problem.Missing, "Permission"},
		"qemu: write: No space left on device":                                                         {problem.Missing, "space"},
		"qemu: seccomp support is disabled":                                                            {problem.Missing, "seccomp"},
		"qemu: what is this":                                                                           {problem.Failed, "what is this"},
		"":                                                                                             {problem.Failed, "said nothing"},
		"a\x1b[31m\xff\nb\n\n":                                                                         {problem.Failed, "a [31m?; b"},
		strings.Repeat("x", 10_000) + "\nlast words":                                                   {problem.Failed, "last words"},
	} {
		err := complaint(words, vm.Emulated)
		if problem.KindOf(err) != want.kind || !strings.Contains(err.Error(), want.in) || len(err.Error()) > maxWords+100 {
			t.Errorf("%.60q: kind %s, %v", words, problem.KindOf(err), err)
		}
		if want.kind != problem.Failed && problem.HintOf(err) == "" {
			t.Errorf("%.60q has no hint", words)
		}
	}
}
