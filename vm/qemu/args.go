package qemu

import (
	"fmt"
	"strconv"
	"strings"

	"bromure.io/tui/vm"
	"bromure.io/tui/vm/guest"
)

// Host is what a command line depends on besides the spec.
type Host struct {
	Arch   string // as runtime.GOARCH names it: "amd64" or "arm64"
	Binary string // absolute path of QEMU for that architecture
	QBoot  bool   // QEMU has the small firmware qboot, see [firmwareArgs]
}

// Descriptors that a machine's process inherits, in the order of exec.Cmd.ExtraFiles. QEMU takes
// its listening sockets ready-made: the backend can connect before QEMU runs, and nothing polls.
const (
	fdLock   = 3 // the workspace's lock; nobody uses it, it is only held
	fdQMP    = 4 // listening
	fdSerial = 5 // listening
)

// Names of block nodes. Checkpoints address them.
const (
	nodeDisk = "disk"
	nodeHome = "home"
	nodeBase = "base"
)

// Args is the command line of a machine, without the program's name. It is pure; spec must have
// passed [check].
//
// Paths may hold any byte but NUL. That is why nothing here is JSON, whose strings QEMU wants to be
// UTF-8: in QEMU's key=value form only the comma is special, and is doubled.
func Args(spec vm.Spec, host Host) []string {
	a := baseArgs(host, spec.Accelerator, spec.Workspace.CPUs, spec.Workspace.MemoryMiB)
	a = append(a,
		"-name", "bromure-"+spec.Workspace.ID.Short()+",debug-threads=on",
		"-uuid", spec.Workspace.ID.UUID(),
		"-S", // stopped until the console and the card are connected: no byte and no event is lost
		"-chardev", fmt.Sprintf("socket,id=qmp,fd=%d,server=on,wait=off", fdQMP),
		"-mon", "chardev=qmp,mode=control,pretty=off",
		"-chardev", fmt.Sprintf("socket,id=serial,fd=%d,server=on,wait=off", fdSerial),
		"-serial", "chardev:serial",
	)
	cmdline := spec.Cmdline
	if spec.Accelerator == vm.Emulated {
		cmdline += emulationCmdline(host)
	}
	a = append(a, bootArgs(spec.Kernel, spec.Initrd, cmdline)...)
	a = append(a, diskArgs(spec)...)
	// An unconnected datagram socket that sends to a path: a new daemon binds that path again and
	// has the network back. QEMU goes on when nobody is there.
	return append(a,
		"-netdev", "dgram,id=net,local.type=unix,local.path="+quote(spec.Dir.NetGuest())+
			",remote.type=unix,remote.path="+quote(spec.Dir.NetHost()),
		"-device", "virtio-net-pci,netdev=net,mac="+string(spec.Workspace.MAC)+
			",host_mtu="+strconv.Itoa(guest.MTU)+virtioPCI,
	)
}

// virtioPCI ends the options of every virtio device: no transitional device (I/O ports that only
// pre-1.0 drivers use), and no option ROM, which would want files of another package and slow the firmware.
const virtioPCI = ",disable-legacy=on,romfile="

// baseArgs is what machines and probes have in common: what is proved is what is run.
func baseArgs(host Host, acc vm.Accelerator, cpus, memoryMiB int) []string {
	a := []string{
		"-nodefaults", "-no-user-config", "-display", "none",
		// The guest's memory is no part of a core file, and no page of it is ever merged with a
		// page of another process (KSM tells a guest by timing what another one holds).
		"-machine", machineType(host.Arch) + ",dump-guest-core=off,mem-merge=off",
		"-accel", accel(acc),
		"-cpu", cpu(host.Arch, acc),
		"-smp", strconv.Itoa(cpus),
		"-m", strconv.Itoa(memoryMiB) + "M",
		"-rtc", "base=utc",
		// seccomp(2): no set*id, no fork or exec, no change of limits. "obsolete" are system calls
		// that QEMU does not need.
		"-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
		"-object", "rng-random,id=rng,filename=/dev/urandom",
		"-device", "virtio-rng-pci,rng=rng" + virtioPCI,
	}
	return append(a, firmwareArgs(host)...)
}

// qboot is a firmware that does what a kernel needs who is loaded directly, and nothing for disks,
// screens and keyboards: the kernel's first instruction runs 0.06 s after QEMU's exec, with SeaBIOS 0.3 s.
const qboot = "qboot.rom"

func firmwareArgs(host Host) []string {
	if host.Arch == "amd64" && host.QBoot {
		return []string{"-bios", qboot}
	}
	return nil // SeaBIOS; on arm64 none is needed
}

// machineType leaves out what no guest of ours uses: each device is a driver to wait for at boot
// and code that a guest can attack. The still smaller type microvm hangs under emulation.
func machineType(arch string) string {
	if arch == "arm64" {
		// The highest interrupt controller that the accelerator has; "max" picks it.
		return "virt,gic-version=max,highmem=on"
	}
	return "q35,usb=off,sata=off,smbus=off,i8042=off,vmport=off,hpet=off"
}

func accel(acc vm.Accelerator) string {
	if acc == vm.KVM {
		return "kvm"
	}
	return "tcg,thread=multi"
}

func cpu(arch string, acc vm.Accelerator) string {
	switch {
	case acc == vm.KVM:
		return "host"
	case arch == "arm64":
		return "max,pauth-impdef=on" // the architected algorithm takes half of the time under emulation
	}
	return "max"
}

// emulationCmdline is what Linux has to be told of an emulated PC, in which it finds no sign of a hypervisor
// (Documentation/admin-guide/kernel-parameters.txt).
//
// no_timer_check: a busy host is late with the first timer interrupts, and the kernel would panic
// over a broken timer.
//
// What must not stand here is tsc=reliable, although reading the clock would cost 0.5 µs instead of the ACPI timer's 2.6: the kernel
// measures the counter's rate while it boots, a busy host makes it measure a tenth of it, and without
// its watchdog the guest's time then runs ten times too fast.
func emulationCmdline(host Host) string {
	if host.Arch != "amd64" {
		return ""
	}
	return " no_timer_check"
}

func bootArgs(kernel, initrd, cmdline string) []string {
	a := []string{"-kernel", kernel}
	if initrd != "" {
		a = append(a, "-initrd", initrd)
	}
	return append(a, "-append", cmdline)
}

func diskArgs(spec vm.Spec) []string {
	var a []string
	if spec.Disk != "" {
		a = append(a, fileNode(nodeDisk, spec.Disk)...)
		if spec.Workspace.DiskFormat == vm.QCOW2 {
			// The base is named here and never read from the overlay's header, and it is raw whatever
			// its first bytes say.
			a = append(a,
				"-blockdev", "driver=file,node-name="+nodeBase+"-file,filename="+quote(spec.Backing)+
					",read-only=on,locking=on",
				"-blockdev", "driver=raw,node-name="+nodeBase+",file="+nodeBase+"-file,read-only=on",
				"-blockdev", "driver=qcow2,node-name="+nodeDisk+",file="+nodeDisk+"-file,backing="+nodeBase+
					",discard=unmap")
		} else {
			a = append(a, rawNode(nodeDisk)...)
		}
		a = append(a, blockDevice(nodeDisk, vm.DiskSerial)...)
	}
	if spec.Home != "" {
		a = append(a, fileNode(nodeHome, spec.Home)...)
		a = append(a, rawNode(nodeHome)...)
		a = append(a, blockDevice(nodeHome, vm.HomeSerial)...)
	}
	return a
}

// fileNode opens an image: locked against every other QEMU, discarded blocks punched out of it.
// Writes go through the host's page cache, and a flush of the guest is an fdatasync(2) here.
func fileNode(node, path string) []string {
	return []string{"-blockdev", "driver=file,node-name=" + node + "-file,filename=" + quote(path) +
		",locking=on,discard=unmap,cache.direct=off,cache.no-flush=off"}
}

// rawNode never probes, and turns blocks of zeroes into holes.
func rawNode(node string) []string {
	return []string{"-blockdev", "driver=raw,node-name=" + node + ",file=" + node + "-file,discard=unmap,detect-zeroes=unmap"}
}

func blockDevice(node, serial string) []string {
	return []string{"-device", "virtio-blk-pci,id=" + node + "-dev,drive=" + node + ",serial=" + serial +
		",write-cache=on,discard=on,write-zeroes=on" + virtioPCI}
}

// probeArgs is the command line of a probe: a machine without disks and card, whose console is
// the connected socket at descriptor 3.
func probeArgs(host Host, acc vm.Accelerator, kernel, initrd, cmdline string) []string {
	a := baseArgs(host, acc, vm.DefaultCPUs, vm.MinMemoryMiB)
	a = append(a, "-no-reboot",
		"-chardev", "socket,id=serial,fd=3",
		"-serial", "chardev:serial")
	return append(a, bootArgs(kernel, initrd, cmdline)...)
}

// probeCmdline makes a kernel that fails say so and end at once.
func probeCmdline(arch string) string {
	console := "ttyS0"
	if arch == "arm64" {
		console = "ttyAMA0"
	}
	return "console=" + console + " quiet panic=-1"
}

// quote makes s one value of QEMU's key=value syntax.
func quote(s string) string { return strings.ReplaceAll(s, ",", ",,") }
