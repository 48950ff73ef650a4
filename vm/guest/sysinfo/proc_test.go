package sysinfo

import (
	"testing"
	"time"
)

func TestParseUptime(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"12.34 20.00\n":   12340 * time.Millisecond,
		"0.00 0.00":       0,
		"86400.05 1.0":    24*time.Hour + 50*time.Millisecond,
		"":                -1,
		"\n":              -1,
		"-1.0 2.0":        -1,
		"NaN 1":           -1,
		"+Inf 1":          -1,
		"1e300 1":         -1,
		"9223372036854 1": -1, // a time.Duration ends before
		"twelve":          -1,
	} {
		got, err := parseUptime([]byte(in))
		if want < 0 && err == nil || want >= 0 && (err != nil || got != want) {
			t.Errorf("%q: %v, %v; want %v", in, got, err, want)
		}
	}
}

func TestParseLoad(t *testing.T) {
	got, err := parseLoad([]byte("0.50 1.25 15.00 2/345 6789\n"))
	if want := [3]float64{0.5, 1.25, 15}; err != nil || got != want {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	for _, in := range []string{"", "1 2", "1 x 3", "1 -2 3", "1 2 NaN", "1 2 Inf"} {
		if got, err := parseLoad([]byte(in)); err == nil {
			t.Errorf("%q was read as %v", in, got)
		}
	}
}

const procStat = `cpu  100 20 300 4000 50 6 7 8 90 10
cpu0 50 10 150 2000 25 3 4 4 45 5
cpu1 50 10 150 2000 25 3 3 4 45 5
intr 12345 0 0 0
ctxt 99
btime 1796043450
processes 1234
`

func TestParseCPU(t *testing.T) {
	busy, cpus, err := parseCPU([]byte(procStat))
	// user + nice + system + irq + softirq + steal: not idle, not waiting, and guests once only.
	if want := 4410 * time.Millisecond; err != nil || busy != want || cpus != 2 {
		t.Errorf("busy %v on %d CPUs, %v; want %v on 2", busy, cpus, err, want)
	}
	for _, in := range []string{
		"", "cpu 1 2 3\ncpu0 1 2 3 4 5 6 7 8\n", "cpu0 1 2 3 4 5 6 7 8\n", "cpu 1 2 3 4 5 6 7 8\n",
		"cpu 1 2 x 4 5 6 7 8\ncpu0 1\n", "cpu 18446744073709551615 2 3 4 5 6 7 8\ncpu0 1\n", "cpu -1 2 3 4 5 6 7 8\ncpu0 1\n",
	} {
		if busy, cpus, err := parseCPU([]byte(in)); err == nil {
			t.Errorf("%q was read as %v on %d", in, busy, cpus)
		}
	}
}

func TestParseMemory(t *testing.T) {
	total, available, err := parseMemory([]byte("MemTotal:        1020 kB\nMemFree: 1 kB\nMemAvailable:     20 kB\nHugePages_Total: 0\n"))
	if err != nil || total != 1020<<10 || available != 20<<10 {
		t.Errorf("%d, %d, %v", total, available, err)
	}
	for _, in := range []string{
		"", "MemTotal: 5 kB\n", "MemAvailable: 5 kB\n", "MemTotal: 5 MB\nMemAvailable: 1 kB\n", "MemTotal: 5\nMemAvailable: 1 kB\n",
		"MemTotal: 5 kB\nMemAvailable: 6 kB\n", "MemTotal: -5 kB\nMemAvailable: 1 kB\n", "MemTotal: 9223372036854775807 kB\nMemAvailable: 1 kB\n",
	} {
		if total, available, err := parseMemory([]byte(in)); err == nil {
			t.Errorf("%q was read as %d, %d", in, total, available)
		}
	}
}

func TestIsPID(t *testing.T) {
	for in, want := range map[string]int{"1": 1, "4194304": 4194304, "0": 0, "-1": 0, "+1": 0, "self": 0, "": 0, "1a": 0, "99999999999": 0} {
		if got, ok := isPID(in); ok != (want > 0) || ok && got != want {
			t.Errorf("%q: %d, %v", in, got, ok)
		}
	}
}

func FuzzProc(f *testing.F) {
	f.Add([]byte(procStat))
	f.Add([]byte("12.34 20.00\n"))
	f.Add([]byte("MemTotal: 5 kB\nMemAvailable: 1 kB\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if d, err := parseUptime(b); err == nil && d < 0 {
			t.Errorf("uptime %v", d)
		}
		if busy, cpus, err := parseCPU(b); err == nil && (busy < 0 || cpus < 1) {
			t.Errorf("busy %v on %d", busy, cpus)
		}
		if total, available, err := parseMemory(b); err == nil && (available < 0 || total < available) {
			t.Errorf("memory %d, %d", total, available)
		}
		if l, err := parseLoad(b); err == nil && !(l[0] >= 0 && l[1] >= 0 && l[2] >= 0) {
			t.Errorf("load %v", l)
		}
	})
}
