package qemu

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/guest"
)

// fakeProc is a /proc with these flags of the processor.
func fakeProc(t *testing.T, flags string) procfs {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"cpuinfo":                   "processor\t: 0\nmodel name\t: Test CPU\nflags\t\t: fpu " + flags + "\n\nprocessor\t: 1\nmodel name\t: Other\n",
		"sys/kernel/random/boot_id": "boot-1\n",
		"sys/kernel/osrelease":      "6.1.0\n",
	} {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return procfs(dir)
}

// kvmHost is a backend that believes in a KVM device. QEMU is a script that plays a boot.
type kvmHost struct {
	*Backend
	probes atomic.Int32
}

func newKVMHost(t *testing.T, script string) *kvmHost {
	t.Helper()
	version := "case $1 in --version) echo 'QEMU emulator version 9.1.0'; exit;; -L) exit;; esac\n"
	dir := bin(t, map[string]string{emulators[runtime.GOARCH]: version + script})
	h := &kvmHost{}
	h.Backend = New(Config{
		Getenv:    func(string) string { return dir },
		CacheFile: filepath.Join(t.TempDir(), "accelerator.json"),
		ProbeBoot: func(context.Context) (string, string, func(), error) {
			h.probes.Add(1)
			return "/kernel", "/initrd", nil, nil
		},
	})
	h.proc = fakeProc(t, "vmx")
	h.kvm = filepath.Join(t.TempDir(), "kvm")
	h.limit = patience
	if err := os.WriteFile(h.kvm, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *kvmHost) ask(t *testing.T) vm.Capabilities {
	t.Helper()
	caps, err := h.Capabilities(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return caps
}

const (
	boots = "printf 'kernel says hello\\n" + guest.ProbeMarker + "\\n' >&3; exec sleep 1000"
	dies  = "echo 'qemu: error: unsupported' >&2; exit 1"
)

// What keeps KVM from being used is said at once, and nothing is booted for it.
func TestNoKVM(t *testing.T) {
	h := newKVMHost(t, boots)
	working, kvm := h.proc, h.kvm
	if runtime.GOARCH == "amd64" {
		h.proc = fakeProc(t, "sse sse2")
		if c := h.ask(t); c.Accelerator != vm.Emulated || !strings.Contains(c.Why, "vmx") || !strings.Contains(c.Hint, "nested") {
			t.Errorf("without the flag: %+v", c)
		}
	}
	h.proc, h.kvm = working, kvm+".none"
	if c := h.ask(t); c.Accelerator != vm.Emulated || !strings.Contains(c.Why, "does not exist") || !strings.Contains(c.Hint, "modprobe") {
		t.Errorf("without the device: %+v", c)
	}
	if v, ok := openKVM(kvm); !ok || v != (verdict{}) {
		t.Errorf("a device that opens: %+v", v)
	}
	if os.Getuid() != 0 { // root opens everything
		if err := os.Chmod(kvm, 0); err != nil {
			t.Fatal(err)
		}
		h.kvm = kvm
		if c := h.ask(t); c.Accelerator != vm.Emulated || !strings.Contains(c.Hint, "usermod -aG kvm") {
			t.Errorf("without the right: %+v", c)
		}
	}
	if n := h.probes.Load(); n != 0 {
		t.Errorf("%d probes", n)
	}
}

func TestProbeDecides(t *testing.T) {
	h := newKVMHost(t, boots)
	for range 2 {
		if c := h.ask(t); c.Accelerator != vm.KVM || !strings.Contains(c.Why, "booted") || c.Hint != "" {
			t.Errorf("%+v", c)
		}
	}
	bad := newKVMHost(t, dies)
	for range 2 {
		if c := bad.ask(t); c.Accelerator != vm.Emulated || !strings.Contains(c.Why, "unsupported") || c.Hint == "" {
			t.Errorf("%+v", c)
		}
	}
	hung := newKVMHost(t, "exec sleep 1000") // as some hypervisors below us make it
	hung.limit = 50 * time.Millisecond
	if c := hung.ask(t); c.Accelerator != vm.Emulated || !strings.Contains(c.Why, "within 50ms") {
		t.Errorf("%+v", c)
	}
	if h.probes.Load() != 1 || bad.probes.Load() != 1 {
		t.Errorf("%d and %d probes", h.probes.Load(), bad.probes.Load())
	}
}

// The answer is kept over daemons, and only as long as nothing changes that it depends on.
func TestAccelCache(t *testing.T) {
	h := newKVMHost(t, boots)
	h.ask(t)
	next := func() *kvmHost { // a new daemon with the same file
		n := newKVMHost(t, dies)
		n.config.CacheFile, n.config.Getenv, n.proc = h.config.CacheFile, h.config.Getenv, h.proc
		return n
	}
	if n := next(); n.ask(t).Accelerator != vm.KVM || n.probes.Load() != 0 {
		t.Error("the kept answer was not used")
	}
	kept, err := os.ReadFile(h.config.CacheFile)
	if err != nil {
		t.Fatal(err)
	}
	var c accelCache
	if err := json.Unmarshal(kept, &c); err != nil || !c.KVM || c.Key.BootID != "boot-1" || c.Key.QEMU != "9.1.0" ||
		c.Key.Kernel != "6.1.0" || !strings.Contains(c.Key.CPU, "Test CPU") {
		t.Errorf("kept: %s (%v)", kept, err)
	}
	for name, spoil := range map[string]func(n *kvmHost, c *accelCache){
		"boot":   func(_ *kvmHost, c *accelCache) { c.Key.BootID = "boot-0" },
		"kernel": func(_ *kvmHost, c *accelCache) { c.Key.Kernel = "5.0" },
		"qemu":   func(_ *kvmHost, c *accelCache) { c.Key.QEMU = "8.0" },
		"cpu":    func(_ *kvmHost, c *accelCache) { c.Key.CPU = "other" },
		"empty":  func(_ *kvmHost, c *accelCache) { c.Why = "" },
	} {
		n, changed := next(), c
		spoil(n, &changed)
		data, _ := json.Marshal(changed)
		if err := os.WriteFile(n.config.CacheFile, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if n.ask(t); n.probes.Load() != 1 {
			t.Errorf("%s: %d probes", name, n.probes.Load())
		}
	}
	for name, data := range map[string]string{
		"empty": "", "garbage": "\x00\xff", "cut": string(kept[:len(kept)/2]), "other type": `{"key": 7}`, "huge": strings.Repeat(" ", maxCache) + "{}",
	} {
		n := next()
		if err := os.WriteFile(n.config.CacheFile, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		if n.ask(t); n.probes.Load() != 1 {
			t.Errorf("a damaged file (%s): %d probes", name, n.probes.Load())
		}
	}
	n := next()
	n.config.CacheFile = "/proc/none/cache" // cannot be written
	n.ask(t)
	if n.ask(t); n.probes.Load() != 1 {
		t.Errorf("without a file: %d probes", n.probes.Load())
	}
}

// A boot under KVM that misses its deadline later on makes machines emulated, also for the next daemon.
func TestDistrust(t *testing.T) {
	h := newKVMHost(t, boots)
	if c := h.ask(t); c.Accelerator != vm.KVM {
		t.Fatalf("%+v", c)
	}
	if err := h.Distrust(t.Context(), "a boot missed its deadline"); err != nil {
		t.Fatal(err)
	}
	n := newKVMHost(t, boots)
	n.config.CacheFile, n.proc = h.config.CacheFile, h.proc
	for _, b := range []*kvmHost{h, n} {
		if c := b.ask(t); c.Accelerator != vm.Emulated || !strings.Contains(c.Why, "a boot missed its deadline") {
			t.Errorf("%+v", c)
		}
	}
	n.proc = fakeProc(t, "svm")
	if err := os.WriteFile(n.proc.path("sys/kernel/random/boot_id"), []byte("boot-2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c := n.ask(t); c.Accelerator != vm.KVM {
		t.Errorf("after a restart of the host: %+v", c)
	}
}

// What cannot be tried is not proved, and not kept as an answer.
func TestNothingToProveWith(t *testing.T) {
	h := newKVMHost(t, boots)
	proved := h.config.ProbeBoot
	h.config.ProbeBoot = nil
	if c := h.ask(t); c.Accelerator != vm.Emulated {
		t.Errorf("%+v", c)
	}
	h.config.ProbeBoot = func(context.Context) (string, string, func(), error) { return "", "", nil, errors.New("no image yet") }
	if c := h.ask(t); c.Accelerator != vm.Emulated || !strings.Contains(c.Why, "no image yet") {
		t.Errorf("%+v", c)
	}
	h.config.ProbeBoot = proved
	if c := h.ask(t); c.Accelerator != vm.KVM {
		t.Errorf("%+v", c)
	}
}

func TestProbesRunOneAtATime(t *testing.T) {
	h := newKVMHost(t, boots)
	var running, most atomic.Int32
	proved := h.config.ProbeBoot
	cleaned := 0
	h.config.ProbeBoot = func(ctx context.Context) (string, string, func(), error) {
		most.Store(max(most.Load(), running.Add(1)))
		k, i, _, err := proved(ctx)
		return k, i, func() { running.Add(-1); cleaned++ }, err
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { h.ask(t) })
	}
	wg.Wait()
	if h.probes.Load() != 1 || most.Load() != 1 || running.Load() != 0 || cleaned != 1 {
		t.Errorf("%d probes, %d at once, %d still running, %d cleaned up", h.probes.Load(), most.Load(), running.Load(), cleaned)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	n := newKVMHost(t, boots)
	n.probing <- struct{}{}
	if _, err := n.Capabilities(cancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting for a probe: %v", err)
	}
}

// On the real host: whatever the answer, it has a reason, and the accelerator is one that was proved.
func TestCapabilitiesHere(t *testing.T) {
	b := newBackend(t)
	caps, err := b.Capabilities(t.Context())
	if problem.KindOf(err) == problem.Missing {
		t.Skipf("needs QEMU: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if caps.Accelerator != vm.Emulated || caps.Why == "" { // no kernel was given
		t.Errorf("%+v", caps)
	}
	t.Logf("%s: %s (%s)", caps.Version, caps.Why, caps.Hint)
}

// The good path on a host whose KVM works.
func TestKVMBootsLinux(t *testing.T) {
	kernel, initrd, _ := linuxImage(t)
	b := New(Config{Getenv: os.Getenv, ProbeBoot: func(context.Context) (string, string, func(), error) {
		return kernel, testInitrd(t, initrd), nil, nil
	}})
	caps, err := b.Capabilities(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if caps.Accelerator != vm.KVM {
		t.Skipf("this host has no KVM that works: %s", caps.Why)
	}
	h := linuxHarness(t, vm.Raw)
	prepare := h.Prepare
	h.Prepare = func(t *testing.T, spec *vm.Spec) { prepare(t, spec); spec.Accelerator = vm.KVM }
	contract(t, h)
}
