package daemontest

import (
	"context"
	"os"
	"testing"
	"time"

	"bromure.io/tui/internal/control"
	"bromure.io/tui/internal/daemon"
	"bromure.io/tui/vm/vmtest"
)

// Daemon is a daemon in this process.
type Daemon struct {
	*control.Client
	Fake *vmtest.Fake // the machines, which outlive the daemon

	stop func()
}

// TempPlace is [NewPlace] for the time of a test.
func TempPlace(t testing.TB) *Place {
	t.Helper()
	p, err := NewPlace()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(p.Dir); err != nil {
			t.Error(err)
		}
	})
	return p
}

// Start runs a daemon until the test ends or [Daemon.Stop] is called. fake has the machines of an earlier one; nil: there are none.
func (p *Place) Start(t testing.TB, fake *vmtest.Fake) *Daemon {
	t.Helper()
	opts, err := p.options()
	if err != nil {
		t.Fatal(err)
	}
	if fake == nil {
		fake = opts.Backend.(*vmtest.Fake)
	}
	opts.Backend = fake
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- daemon.Run(ctx, opts) }()
	d := &Daemon{Fake: fake, stop: func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("daemon: %v", err)
		}
		ended <- nil
	}}
	t.Cleanup(d.Stop)
	wait, done := context.WithTimeout(t.Context(), patience)
	defer done()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if d.Client, err = control.Connect(wait, control.Options{Root: p.Root, Runtime: p.Runtime, Version: version}); err == nil {
			return d
		}
		select {
		case <-tick.C:
		case err := <-ended:
			ended <- nil
			t.Fatalf("the daemon ended: %v", err)
		case <-wait.Done():
			t.Fatal(err)
		}
	}
}

// Stop makes the daemon leave. It may be called more than once.
func (d *Daemon) Stop() {
	if d.Client != nil {
		d.Client.Close()
	}
	d.stop()
}
