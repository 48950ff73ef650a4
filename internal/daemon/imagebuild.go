package daemon

import (
	"context"

	"bromure.io/tui/images"
	"bromure.io/tui/images/build"
	"bromure.io/tui/internal/control/wire"
)

// buildImage makes a base image. It ends with ctx: a build that nobody waits for is given up, and leaves nothing.
func (d *Daemon) buildImage(ctx context.Context, b *wire.Build, report func(wire.Progress)) (images.Ref, error) {
	d.mu.Lock()
	if d.closing {
		d.mu.Unlock()
		return "", errClosing
	}
	d.building++
	d.ops.Add(1)
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		d.building--
		d.mu.Unlock()
		d.ops.Done()
		d.changed()
	}()
	opts := build.Options{ImagesDir: d.opts.Root.Images(), Progress: func(p build.Progress) {
		report(wire.Progress{Step: p.Step, Note: p.Note, Finished: p.Finished, Took: p.Took})
	}}
	if b != nil {
		opts.Distro, opts.Suite = b.Distro, b.Suite
	}
	return build.Run(ctx, opts)
}
