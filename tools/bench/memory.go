package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// takeMemory measures a daemon that has nothing to do, and the start of the command itself.
func takeMemory(ctx context.Context, b *bench) (figures []figure, err error) {
	rss := figure{name: "memory of the daemon without a machine", unit: megabytes, aim: aim{value: 40}}
	for range min(b.n, 5) {
		v, err := b.idleDaemon(ctx)
		if err != nil {
			return nil, err
		}
		rss.ours = append(rss.ours, v)
	}
	figures = append(figures, rss)

	in, err := b.newInstall()
	if err != nil {
		return figures, err
	}
	start := figure{name: "start of the command (--version)", unit: milliseconds, against: "/bin/true"}
	err = start.alternate(ctx, 5*b.n,
		timed(func(ctx context.Context) error { _, err := in.cli(ctx, "--version"); return err }),
		timed(func(ctx context.Context) error { return exec.CommandContext(ctx, "/bin/true").Run() }))
	return append(figures, start), err
}

// idleDaemon starts a daemon in an empty data root and reads its resident memory, in MB of 10^6 bytes.
func (b *bench) idleDaemon(ctx context.Context) (mb float64, err error) {
	in, err := b.newInstall()
	if err != nil {
		return 0, err
	}
	pid, err := in.daemonPID(ctx)
	if err != nil {
		return 0, err
	}
	kib, err := resident(pid)
	if cerr := in.close(); err == nil {
		err = cerr
	}
	return float64(kib) * 1024 / 1e6, err
}

// resident is VmRSS of a process, in KiB (proc(5)).
func resident(pid int) (int64, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if rest, ok := strings.CutPrefix(lines.Text(), "VmRSS:"); ok {
			return strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		}
	}
	return 0, fmt.Errorf("process %d has no VmRSS", pid)
}
