// Package initd is what bromure-guest does as process 1: it brings a workspace's system up to
// the point where a shell answers, and then becomes the distribution's init.
//
// The order is in boot_linux.go; read that first. Decisions (which disk, what to do with home, what to write
// into /etc) are pure functions in files of their own: config.go, disk.go, home.go, etc.go. Everything on the disks belongs to the
// guest's user and may hold anything, so what is read from there is bounded, and what is written there never follows
// a link out of its directory.
//
// It must not know: SSH. The program that serves it is started by the caller's function.
package initd
