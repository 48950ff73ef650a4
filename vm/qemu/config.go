// Package qemu runs machines as QEMU processes on Linux hosts. A process is its own session, is
// reached by paths only and holds the workspace's lock, so that it outlives the daemon and the next
// one can adopt it. No process is ever signalled whose identity is not proved.
//
// Read args.go for what a machine is made of, start_linux.go for how it comes to be and
// adopt_linux.go for how it is found again. The package knows no workspace directory, no network
// stack and no guest program: paths and frames are all it is given.
package qemu

import (
	"context"
	"log/slog"
)

// Config is what a backend needs from its surroundings.
type Config struct {
	// Getenv reads the environment: PATH to find QEMU. Required.
	Getenv func(string) string

	// CacheFile keeps the answer of the accelerator probe; empty: it is not kept.
	CacheFile string

	// ProbeBoot makes a kernel and an initramfs whose init prints guest.ProbeMarker; cleanup (which may
	// be nil) removes what it made. Nil or an error: nothing can be proved, so machines are emulated.
	ProbeBoot func(ctx context.Context) (kernel, initrd string, cleanup func(), err error)

	// Log gets what no caller waits for. Nil: nothing is logged.
	Log *slog.Logger
}

// backendName is the word in state.json.
const backendName = "qemu"
