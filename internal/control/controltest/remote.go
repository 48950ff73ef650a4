package controltest

import (
	"context"
	"iter"
	"time"

	"bromure.io/tui/internal/control"
	"bromure.io/tui/internal/control/wire"
)

// Remote makes a [control.Service] of a client, so that the contract can be held to the way over the socket too.
func Remote(c *control.Client) control.Service { return remote{c} }

type remote struct{ *control.Client }

func (r remote) Health() wire.Health {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	h, _ := r.Client.Health(ctx) // an empty one fails the contract
	return h
}

func (r remote) Watch(ctx context.Context) iter.Seq[wire.Snapshot] {
	return func(yield func(wire.Snapshot) bool) {
		for snap, err := range r.Client.Watch(ctx) {
			if err != nil || !yield(snap) {
				return
			}
		}
	}
}

// Lease is [control.Service.Lease]; over the socket a front that ends its lease is a front that is gone.
func (r remote) Lease(ctx context.Context, ref string) (func(gone bool), error) {
	release, err := r.Client.Lease(ctx, ref)
	if err != nil {
		return nil, err
	}
	return func(bool) { release() }, nil
}
