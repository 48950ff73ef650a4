package qemu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"bromure.io/tui/vm"
)

const nestedHint = "Switch virtualisation on in the firmware; if this computer is itself a virtual machine, " +
	"switch on nested virtualisation for it."

// verdict is whether machines may use KVM, in words for people.
type verdict struct {
	kvm       bool
	why, hint string
}

// judge proves the accelerator or says why there is none. A device that opens proves nothing: under
// some hypervisors KVM starts and a 64-bit kernel then hangs. So what can be seen at once is looked at each time, and a
// kernel is booted once for each combination of what the answer depends on.
func (b *Backend) judge(ctx context.Context, host Host, version string) (verdict, error) {
	cpu, err := b.proc.cpu(b.arch)
	if err != nil {
		return verdict{}, err
	}
	if !cpu.virtual {
		return verdict{why: "the processor offers no virtualisation (neither vmx nor svm in /proc/cpuinfo)", hint: nestedHint}, nil
	}
	if v, ok := openKVM(b.kvm); !ok {
		return v, nil
	}
	key, err := b.accelKey(cpu.model, version)
	if err != nil {
		return verdict{}, err
	}
	select { // one at a time: a second one would make the first miss its deadline
	case b.probing <- struct{}{}:
		defer func() { <-b.probing }()
	case <-ctx.Done():
		return verdict{}, ctx.Err()
	}
	if c, ok := b.loadCache(key); ok {
		return c.verdict(), nil
	}
	if b.config.ProbeBoot == nil {
		return verdict{why: "KVM is there, but there is nothing to prove it with"}, nil
	}
	kernel, initrd, done, err := b.config.ProbeBoot(ctx)
	if err != nil {
		return verdict{why: "KVM is there, but could not be proved: " + err.Error()}, nil
	}
	if done != nil {
		defer done()
	}
	start := time.Now()
	c := accelCache{Key: key, At: start}
	err = probe(ctx, host, vm.KVM, kernel, initrd, b.limit)
	if ctx.Err() != nil {
		return verdict{}, ctx.Err()
	}
	if unproved, ok := errors.AsType[*notProved](err); ok {
		c.Why = "KVM is there, but a kernel did not boot under it: " + unproved.Error()
	} else if err != nil {
		return verdict{why: "KVM is there, but could not be proved: " + err.Error()}, nil
	} else {
		c.KVM = true
		c.Why = fmt.Sprintf("a kernel booted under KVM in %v", time.Since(start).Round(10*time.Millisecond))
	}
	b.log.Info("probed the accelerator", "kvm", c.KVM, "why", c.Why)
	b.saveCache(c)
	return c.verdict(), nil
}

// Distrust records that a machine under KVM did not come up, so that machines are emulated until
// something changes that the answer depends on. reason completes "KVM is not used because …".
func (b *Backend) Distrust(ctx context.Context, reason string) error {
	_, version, err := b.hostVersion(ctx)
	if err != nil {
		return err
	}
	cpu, err := b.proc.cpu(b.arch)
	if err != nil {
		return err
	}
	key, err := b.accelKey(cpu.model, version)
	if err != nil {
		return err
	}
	select {
	case b.probing <- struct{}{}:
		defer func() { <-b.probing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	b.log.Warn("KVM is not used any more", "reason", reason)
	b.saveCache(accelCache{Key: key, At: time.Now(), Why: "KVM is not used because " + reason})
	return nil
}

// openKVM opens KVM's device as QEMU will.
func openKVM(path string) (verdict, bool) {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
	switch {
	case err == nil:
		_ = f.Close()
		return verdict{}, true
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		return verdict{why: path + " does not exist: the kernel module of KVM is not loaded",
			hint: "Load it: sudo modprobe kvm_intel (or kvm_amd). " + nestedHint}, false
	case errors.Is(err, fs.ErrPermission):
		return verdict{why: path + " may not be opened by this user", hint: kvmGroupHint}, false
	case errors.Is(err, unix.EBUSY):
		return verdict{why: "another hypervisor has taken the processor's virtualisation",
			hint: "Stop it (VirtualBox and VMware do this)."}, false
	}
	return verdict{why: "KVM cannot be opened: " + err.Error()}, false
}
