package qemu

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"bromure.io/tui/vm"
	"bromure.io/tui/vm/guest"
)

// children lists the processes whose parent is this one: a probe leaves none.
func children(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("/proc/self/task", itoa(os.Getpid()), "children"))
	if err != nil {
		t.Skip(err)
	}
	return string(b)
}

// The mechanics of a probe, under emulation: what it waits for, and that it ends.
func TestProbe(t *testing.T) {
	host := needQEMU(t)
	before := children(t)
	if err := probe(t.Context(), host, vm.Emulated, tinyKernel(t, "hello\n"+guest.ProbeMarker+"\n", thenHalt), "", patience); err != nil {
		t.Errorf("a kernel that prints the marker: %v", err)
	}
	err := probe(t.Context(), host, vm.Emulated, tinyKernel(t, "hello\n", thenHalt), "", time.Second)
	if _, ok := errors.AsType[*notProved](err); !ok || !strings.Contains(err.Error(), "within 1s") {
		t.Errorf("a kernel that hangs: %v", err)
	}
	err = probe(t.Context(), host, vm.Emulated, tinyKernel(t, "hello\n", thenPowerOff), "", patience)
	if _, ok := errors.AsType[*notProved](err); !ok || !strings.Contains(err.Error(), "exit status 0") {
		t.Errorf("a kernel that gives up: %v", err)
	}
	err = probe(t.Context(), host, vm.Emulated, "/none", "", patience)
	if _, ok := errors.AsType[*notProved](err); !ok || !strings.Contains(err.Error(), "/none") {
		t.Errorf("no kernel: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if err := probe(ctx, host, vm.Emulated, tinyKernel(t, "", thenHalt), "", patience); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if after := children(t); after != before {
		t.Errorf("processes are left: %q, before %q", after, before)
	}
}

// The real thing, under the accelerator that always works.
func TestProbeBootsLinux(t *testing.T) {
	kernel, initrd, _ := linuxImage(t)
	host := needQEMU(t)
	if err := probe(t.Context(), host, vm.Emulated, kernel, testInitrd(t, initrd), patience); err != nil {
		t.Error(err)
	}
}

func TestWaitForMarker(t *testing.T) {
	flood := strings.Repeat("x", 100_000)
	for name, c := range map[string]struct {
		text string
		want error
	}{
		"at once":      {guest.ProbeMarker, nil},
		"behind a lot": {flood + guest.ProbeMarker + flood, nil},
		"never":        {flood, io.EOF},
		"half of it":   {guest.ProbeMarker[:8], io.EOF},
		"nothing":      {"", io.EOF},
	} {
		for _, r := range []io.Reader{strings.NewReader(c.text), iotest.OneByteReader(strings.NewReader(c.text))} {
			if err := waitForMarker(r); !errors.Is(err, c.want) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if err := waitForMarker(endless{}); !errors.Is(err, errTooMuch) {
		t.Errorf("endless: %v", err)
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
