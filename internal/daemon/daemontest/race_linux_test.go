//go:build race

package daemontest

// everyUsually: the race detector makes each daemon several times as slow, and what it looks for does not depend on the step.
const everyUsually = 8
