package main

import (
	"context"
	"os"
	"os/exec"
)

// takeExec measures a command in a machine that runs: the whole of "vm exec", from its exec to its exit.
func takeExec(ctx context.Context, b *bench) ([]figure, error) {
	in, err := b.newInstall()
	if err != nil {
		return nil, err
	}
	defer in.close()
	for _, args := range [][]string{
		{"workspaces", "create", "--name", "w", "--memory", "1"},
		{"vm", "run", "-d", "w"},
		{"vm", "exec", "w", "--", "sh", "-c", "systemctl is-system-running --wait >/dev/null; true"}, // the boot's own work is over
	} {
		if _, err := in.cli(ctx, args...); err != nil {
			return nil, err
		}
	}
	host := timed(func(ctx context.Context) error { return exec.CommandContext(ctx, "/bin/true").Run() })
	inside := figure{name: "vm exec WS -- true, workspace running", unit: milliseconds, against: "/bin/true on the host", aim: aim{value: 50}}
	err = inside.alternate(ctx, 5*b.n,
		timed(func(ctx context.Context) error { _, err := in.cli(ctx, "vm", "exec", "w", "--", "true"); return err }), host)
	if err != nil {
		return nil, err
	}
	login := figure{name: "vm exec WS -- bash -lc true", unit: milliseconds, against: "bash -lc true on the host"}
	err = login.alternate(ctx, 3*b.n,
		timed(func(ctx context.Context) error {
			_, err := in.cli(ctx, "vm", "exec", "w", "--", "bash", "-lc", "true")
			return err
		}),
		timed(func(ctx context.Context) error {
			cmd := exec.CommandContext(ctx, "bash", "-lc", "true")
			cmd.Env = append(os.Environ(), "HOME=/nonexistent") // not the login files of whoever measures
			return cmd.Run()
		}))
	return []figure{inside, login}, err
}
