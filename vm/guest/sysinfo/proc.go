// Package sysinfo reads what a Linux system says of itself (load, memory, disks, listening ports), and does what
// the host asks of a running guest: set the clock, trim, sync, power off.
//
// The parsers in proc.go and ports.go are pure and bounded: the files are the kernel's, but names of processes in
// them are anybody's. Everything that touches the system is in files for Linux. Power-off is in power_linux.go,
// which states the order that leaves file systems clean.
package sysinfo

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// userHz is the unit of the times in /proc/stat: USER_HZ, 100 on every architecture we run on (proc(5)).
const userHz = 100

// maxSeconds bounds times from /proc, in seconds: what a time.Duration can hold, less some room for sums.
const maxSeconds = math.MaxInt64 / int64(time.Second) / 4

var errFormat = errors.New("not in the format of proc(5)")

// parseUptime reads /proc/uptime: seconds since boot, then idle seconds of all CPUs.
func parseUptime(b []byte) (time.Duration, error) {
	f := bytes.Fields(b)
	if len(f) < 1 {
		return 0, fmt.Errorf("uptime: %w", errFormat)
	}
	s, err := parseFloat(f[0])
	if err != nil || s > float64(maxSeconds) {
		return 0, fmt.Errorf("uptime: %w", errFormat)
	}
	return time.Duration(s * float64(time.Second)).Round(10 * time.Millisecond), nil
}

// parseLoad reads /proc/loadavg: the load over 1, 5 and 15 minutes, and more that we leave.
func parseLoad(b []byte) (load [3]float64, err error) {
	f := bytes.Fields(b)
	if len(f) < 3 {
		return load, fmt.Errorf("load average: %w", errFormat)
	}
	for i := range load {
		if load[i], err = parseFloat(f[i]); err != nil {
			return [3]float64{}, fmt.Errorf("load average: %w", err)
		}
	}
	return load, nil
}

// parseFloat reads a number that is finite and not negative.
func parseFloat(b []byte) (float64, error) {
	v, err := strconv.ParseFloat(string(b), 64)
	if err != nil || !(v >= 0) || math.IsInf(v, 0) {
		return 0, errFormat
	}
	return v, nil
}

// parseCPU reads /proc/stat: how long all CPUs together did something, and how many there are.
func parseCPU(b []byte) (busy time.Duration, cpus int, err error) {
	seen := false
	for line := range bytes.Lines(b) {
		f := bytes.Fields(line)
		if len(f) == 0 || !bytes.HasPrefix(f[0], []byte("cpu")) {
			continue
		}
		if len(f[0]) > len("cpu") {
			cpus++
			continue
		}
		// user nice system idle iowait irq softirq steal guest guest_nice; what guests got is in user and nice already.
		if len(f) < 9 {
			return 0, 0, fmt.Errorf("cpu times: %w", errFormat)
		}
		var ticks uint64
		for _, i := range []int{1, 2, 3, 6, 7, 8} {
			n, err := strconv.ParseUint(string(f[i]), 10, 64)
			if err != nil || n > uint64(maxSeconds) {
				return 0, 0, fmt.Errorf("cpu times: %w", errFormat)
			}
			ticks += n
		}
		seen, busy = true, time.Duration(ticks)*(time.Second/userHz)
	}
	if !seen || cpus == 0 {
		return 0, 0, fmt.Errorf("cpu times: %w", errFormat)
	}
	return busy, cpus, nil
}

// parseMemory reads /proc/meminfo, whose numbers are in KiB: all memory, and what programs could still get
// without swapping.
func parseMemory(b []byte) (total, available int64, err error) {
	total, available = -1, -1
	for line := range bytes.Lines(b) {
		name, rest, ok := bytes.Cut(line, []byte(":"))
		if !ok {
			continue
		}
		var to *int64
		switch string(name) {
		case "MemTotal":
			to = &total
		case "MemAvailable":
			to = &available
		default:
			continue
		}
		f := bytes.Fields(rest)
		if len(f) != 2 || string(f[1]) != "kB" {
			return 0, 0, fmt.Errorf("memory: %w", errFormat)
		}
		n, err := strconv.ParseInt(string(f[0]), 10, 64)
		if err != nil || n < 0 || n > math.MaxInt64/1024 {
			return 0, 0, fmt.Errorf("memory: %w", errFormat)
		}
		*to = n * 1024
	}
	if total < 0 || available < 0 || available > total {
		return 0, 0, fmt.Errorf("memory: %w", errFormat)
	}
	return total, available, nil
}

// isPID says whether a name in /proc is a process.
func isPID(name string) (pid int, ok bool) {
	n, err := strconv.ParseInt(name, 10, 32)
	return int(n), err == nil && n > 0 && name[0] != '+'
}
