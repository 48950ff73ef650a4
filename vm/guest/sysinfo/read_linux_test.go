package sysinfo

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"bromure.io/tui/vm/guest"
)

// fakeProc makes a directory like /proc, with two processes that listen.
func fakeProc(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	link := func(name, target string) {
		write(name+".d/x", "") // makes the directory
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	write("uptime", "100.50 50.00\n")
	write("loadavg", "0.50 0.25 0.10 1/100 200\n")
	write("stat", procStat)
	write("meminfo", "MemTotal: 1000 kB\nMemAvailable: 400 kB\n")
	write("net/tcp", procTCP)
	write("net/tcp6", procTCP6)
	write("sys/kernel/osrelease", "6.1.0-57-cloud-amd64\n")
	write("sys/kernel/random/boot_id", "9a87b7a3-265e-44cf-9ddc-ce779e03942a\n")
	write("12/comm", "@bromure-guest\n")
	link("12/fd/4", "socket:[12]")
	write("200/comm", "node\xff server\n")
	link("200/fd/3", "socket:[4711]")
	link("200/fd/4", "socket:[9999]")
	link("200/fd/5", "/dev/null")
	write("201/comm", "worker\n")
	link("201/fd/3", "socket:[4711]") // shared with its parent
	link("201/fd/9", "socket:[4713]")
	write("acpi/x", "")
	return dir
}

func TestStats(t *testing.T) {
	r := Reader{Proc: fakeProc(t), Root: t.TempDir(), Home: t.TempDir()}
	got, err := r.Stats()
	if err != nil {
		t.Fatal(err)
	}
	if got.RootTotal <= 0 || got.RootUsed < 0 || got.RootUsed > got.RootTotal || got.HomeTotal != got.RootTotal {
		t.Errorf("disks: %+v", got)
	}
	got.RootTotal, got.RootUsed, got.HomeTotal, got.HomeUsed = 0, 0, 0, 0
	want := guest.Stats{
		Uptime: 100500 * time.Millisecond, Load1: 0.5, Load5: 0.25, Load15: 0.1, CPUBusy: 4410 * time.Millisecond, CPUs: 2,
		MemTotal: 1000 << 10, MemUsed: 600 << 10, Processes: 3,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}

	// One file that cannot be read does not hide the others.
	if err := os.Remove(filepath.Join(r.Proc, "meminfo")); err != nil {
		t.Fatal(err)
	}
	got, err = r.Stats()
	if err == nil || got.MemTotal != 0 || got.CPUs != 2 || got.Processes != 3 {
		t.Errorf("without meminfo: %+v, %v", got, err)
	}
}

func TestPorts(t *testing.T) {
	r := Reader{Proc: fakeProc(t)}
	got, err := r.Ports(12)
	if err != nil {
		t.Fatal(err)
	}
	want := []guest.Port{
		{Proto: "tcp6", Address: "::1", Port: 631, Process: "worker", PID: 201, Loopback: true},
		{Proto: "tcp", Address: "0.0.0.0", Port: 3000},
		{Proto: "tcp", Address: "127.0.0.1", Port: 8080, Process: "node? server", PID: 200, Loopback: true},
		{Proto: "tcp6", Address: "::ffff:127.0.0.1", Port: 8081, Loopback: true},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if all, err := r.Ports(); err != nil || len(all) != 5 {
		t.Errorf("with our own: %v, %v", all, err)
	}
	if err := os.Remove(filepath.Join(r.Proc, "net/tcp6")); err != nil {
		t.Fatal(err)
	}
	if got, err := r.Ports(12); err != nil || len(got) != 2 {
		t.Errorf("without IPv6: %v, %v", got, err)
	}
}

// TestRunningSystem reads the system that the test runs on.
func TestRunningSystem(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	ports, err := Reader{}.Ports()
	if err != nil {
		t.Fatal(err)
	}
	want := ln.Addr().(*net.TCPAddr).Port
	found := false
	for _, p := range ports {
		found = found || p.Port == want && p.PID == os.Getpid() && p.Loopback && p.Process != ""
	}
	if !found {
		t.Errorf("port %d of process %d is not in %v", want, os.Getpid(), ports)
	}
	s, err := Reader{Home: t.TempDir()}.Stats()
	if err != nil || s.Uptime <= 0 || s.CPUs < 1 || s.MemTotal <= 0 || s.MemUsed <= 0 || s.Processes < 1 {
		t.Errorf("%+v, %v", s, err)
	}
	h, err := Reader{}.Hello(true)
	if err != nil || h.Version != guest.Version || h.Kernel == "" || len(h.BootID) != 36 || !h.Booted {
		t.Errorf("%+v, %v", h, err)
	}
	if err := (Reader{Home: t.TempDir()}).Sync(); err != nil {
		t.Error(err)
	}
}

func TestSetClockRefuses(t *testing.T) {
	for _, at := range []time.Time{{}, time.Unix(0, 0), time.Date(2019, 12, 31, 0, 0, 0, 0, time.UTC), time.Date(2500, 1, 1, 0, 0, 0, 0, time.UTC)} {
		if _, err := SetClock(at); err == nil {
			t.Errorf("the clock was set to %v", at)
		}
	}
	// The time that it is is no reason to set it, so anybody may ask for that.
	if _, err := SetClock(time.Now()); err != nil {
		t.Error(err)
	}
}
