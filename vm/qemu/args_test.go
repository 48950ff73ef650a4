package qemu

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bromure.io/tui/internal/layout"
	"bromure.io/tui/vm"
)

var update = flag.Bool("update", false, "write the golden command lines anew")

func goldenSpec() vm.Spec {
	return vm.Spec{
		Workspace: vm.Workspace{
			Version: vm.ConfigVersion, ID: "0123456789abcdef0123456789abcdef", Name: "a name, with=odd \"things\"",
			MAC: "02:11:22:33:44:55", CPUs: 2, MemoryMiB: 4096, HomeMiB: vm.DefaultHomeMiB, DiskFormat: vm.Raw,
		},
		Accelerator: vm.Emulated,
		Disk:        "/data/workspaces/w/disk.img",
		Home:        "/data/workspaces/w/home.img",
		Kernel:      "/data/images/i/kernel",
		Initrd:      "/run/m/initrd",
		Cmdline:     "console=ttyS0 quiet",
		Dir:         "/run/m",
		Log:         "/data/workspaces/w/logs/machine.log",
	}
}

// A command line is a promise about what guests meet: each change of it shows here.
func TestArgsGolden(t *testing.T) {
	overlay := func(s *vm.Spec) {
		s.Workspace.DiskFormat, s.Backing = vm.QCOW2, "/data/images/i/base.img"
	}
	for name, c := range map[string]struct {
		arch   string
		change func(*vm.Spec)
	}{
		"amd64-emulated": {"amd64", func(*vm.Spec) {}},
		"amd64-kvm":      {"amd64", func(s *vm.Spec) { s.Accelerator = vm.KVM }},
		"amd64-overlay":  {"amd64", overlay},
		"amd64-no-disks": {"amd64", func(s *vm.Spec) { s.Disk, s.Home = "", "" }},
		"arm64-emulated": {"arm64", func(*vm.Spec) {}},
		"arm64-kvm":      {"arm64", func(s *vm.Spec) { s.Accelerator = vm.KVM }},
		"amd64-qboot":    {"amd64", func(*vm.Spec) {}},
		"odd-paths": {"amd64", func(s *vm.Spec) {
			overlay(s)
			s.Disk, s.Backing, s.Home = "/d,a=b/\xff,,disk", "/b,readonly=off", "/h ,locking=off"
			s.Dir = layout.MachineDir("/r,un")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := goldenSpec()
			c.change(&spec)
			got := strings.Join(Args(spec, Host{Arch: c.arch, Binary: "/usr/bin/qemu", QBoot: strings.HasSuffix(name, "qboot")}), "\n") + "\n"
			path := filepath.Join("testdata", "args", name+".golden")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); d != "" {
				t.Errorf("the command line changed (-was +is):\n%s", d)
			}
		})
	}
}

// What must hold for every command line, whatever it looks like.
func TestArgsInvariants(t *testing.T) {
	for _, arch := range []string{"amd64", "arm64"} {
		for _, acc := range []vm.Accelerator{vm.KVM, vm.Emulated} {
			for _, format := range []vm.DiskFormat{vm.Raw, vm.QCOW2} {
				spec := goldenSpec()
				spec.Accelerator, spec.Workspace.DiskFormat, spec.Backing = acc, format, "/base"
				args := Args(spec, Host{Arch: arch})
				for _, flag := range []string{"-nodefaults", "-no-user-config", "-S", "-sandbox"} {
					if !slices.Contains(args, flag) {
						t.Errorf("%s %s: no %s", arch, acc, flag)
					}
				}
				for _, flag := range []string{"-no-reboot", "-daemonize", "-drive", "-hda", "-snapshot", "-monitor"} {
					if slices.Contains(args, flag) {
						t.Errorf("%s %s: %s", arch, acc, flag)
					}
				}
				for _, a := range args {
					if strings.HasPrefix(a, "driver=file") && !strings.Contains(a, "locking=on") {
						t.Errorf("an image without a lock: %s", a)
					}
					if strings.Contains(a, "filename=/base") && !strings.Contains(a, "read-only=on") {
						t.Errorf("the base can be written: %s", a)
					}
					if strings.HasPrefix(a, "virtio-") && !strings.HasSuffix(a, virtioPCI) {
						t.Errorf("a device with an option ROM: %s", a)
					}
				}
			}
		}
	}
}

// The name that people give a workspace is not part of a command line.
func TestArgsHoldNoName(t *testing.T) {
	for _, a := range Args(goldenSpec(), Host{Arch: "amd64"}) {
		if strings.Contains(a, "odd") {
			t.Errorf("the name is in %q", a)
		}
	}
}
