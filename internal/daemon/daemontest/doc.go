// Package daemontest runs the real daemon for tests, on a data root of a few kilobytes and with fake machines whose guests
// answer over SSH (guest_linux.go), in this process or in one that can be ended at any step (process_linux.go).
//
// fault_linux.go is the harness that ends it at every step: each operation that changes the disk is cut at each of its
// fail points, everything is killed, the daemon starts again, and what it finds is compared with the state before and the state
// after. A new operation is a row in operations_linux.go; a new step is a failpoint.Here where the step is made. docs/reliability.md has the
// table that it prints.
package daemontest
