package controltest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"bromure.io/tui/internal/control"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
)

// RunDaemon is a daemon around a [Fake], until ctx ends or a front asks it to leave.
func RunDaemon(ctx context.Context, root layout.Root, rt layout.Runtime, version string) error {
	if err := layout.Ensure(string(root)); err != nil {
		return err
	}
	lock, err := os.OpenFile(root.DaemonLock(), os.O_RDWR|os.O_CREATE, layout.FileMode)
	if err != nil {
		return err
	}
	defer lock.Close()
	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return problem.New(problem.Refused, "another daemon serves "+string(root), "")
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	l, err := control.Listen(root, rt)
	if err != nil {
		return err
	}
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	fake := NewFake(root, version, leave)
	defer fake.Close()
	server := control.NewServer(fake, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case <-ctx.Done():
	case err := <-served:
		return err
	}
	sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err = server.Shutdown(sctx)
	return errors.Join(err, <-served)
}
