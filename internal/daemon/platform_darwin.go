package daemon

import (
	"context"
	"fmt"

	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
)

// platformBackend: the backend for Virtualization.framework is not built yet, and says so at the first use.
func (d *Daemon) platformBackend() vm.Backend { return noBackend{} }

type noBackend struct{}

var errNoBackend = problem.New(problem.Missing, "there is no backend for macOS yet", "Use a Linux host.")

func (noBackend) Name() string { return "none" }
func (noBackend) Capabilities(context.Context) (vm.Capabilities, error) {
	return vm.Capabilities{}, errNoBackend
}
func (noBackend) Start(context.Context, vm.Spec) (vm.Machine, error) { return nil, errNoBackend }
func (noBackend) Adopt(context.Context, vm.Spec, vm.Record) (vm.Machine, error) {
	return nil, fmt.Errorf("%w: %w", vm.ErrGone, errNoBackend)
}
