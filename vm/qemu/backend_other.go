//go:build !linux

package qemu

import (
	"context"

	"bromure.io/tui/vm"
)

// Backend implements [vm.Backend] on Linux only.
type Backend struct{}

// New returns a backend whose methods fail with [vm.ErrUnsupported].
func New(Config) *Backend { return &Backend{} }

// Name implements [vm.Backend].
func (*Backend) Name() string { return backendName }

// Capabilities implements [vm.Backend].
func (*Backend) Capabilities(context.Context) (vm.Capabilities, error) {
	return vm.Capabilities{}, vm.ErrUnsupported
}

// Start implements [vm.Backend].
func (*Backend) Start(context.Context, vm.Spec) (vm.Machine, error) { return nil, vm.ErrUnsupported }

// Adopt implements [vm.Backend].
func (*Backend) Adopt(context.Context, vm.Spec, vm.Record) (vm.Machine, error) {
	return nil, vm.ErrUnsupported
}

// Find looks for a machine whose record was lost.
func (*Backend) Find(vm.ID, string) (vm.Record, error) { return vm.Record{}, vm.ErrUnsupported }

// Distrust makes machines run without an accelerator until the host changes.
func (*Backend) Distrust(context.Context, string) error { return vm.ErrUnsupported }
