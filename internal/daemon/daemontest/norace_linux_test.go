//go:build !race

package daemontest

// everyUsually: at every step.
const everyUsually = 1
