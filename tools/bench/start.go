package main

import (
	"context"
	"fmt"
	"strconv"
)

// The machine of both sides: what `workspaces create` makes, and the bare QEMU line beside it.
const (
	machineGB   = 2
	machineCPUs = 2
)

// marker is what the first command prints.
const marker = "BENCH-FIRST-OUTPUT"

// takeStart compares "vm run WS -- echo …", from the command's exec to its first output, with the same kernel under
// the same accelerator booted by a bare QEMU line, from its exec to the first output of an init that does nothing else.
// The daemon runs already; the workspace is off.
func takeStart(ctx context.Context, b *bench) ([]figure, error) {
	in, err := b.newInstall()
	if err != nil {
		return nil, err
	}
	defer in.close()
	ref, err := b.newBare(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := in.cli(ctx, "workspaces", "create", "--name", "w", "--memory", strconv.Itoa(machineGB), "--cpus", strconv.Itoa(machineCPUs)); err != nil {
		return nil, err
	}
	accel, err := in.accelerator(ctx)
	if err != nil {
		return nil, err
	}
	start := figure{
		name: "start to the output of a first command", unit: milliseconds,
		against: "bare QEMU (" + accel + ") to user space", aim: aim{ratio: 1.4},
	}
	err = start.alternate(ctx, b.n,
		func(ctx context.Context) (float64, error) {
			ms, err := untilLine(in.command(ctx, "vm", "run", "w", "--", "echo", marker), marker)
			if err != nil {
				return 0, err
			}
			_, err = in.cli(ctx, "vm", "stop", "w")
			return ms, err
		},
		func(ctx context.Context) (float64, error) {
			ctx, stop := context.WithCancel(ctx)
			defer stop()
			cmd := ref.command(ctx, accel, ref.first, "")
			ms, err := untilLine(cmd, userSpace)
			if err != nil {
				return 0, fmt.Errorf("bare QEMU: %w", err)
			}
			return ms, nil
		})
	return []figure{start}, err
}
