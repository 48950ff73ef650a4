// Package report writes to the serial console, on which a guest tells its host how far its boot is. The lines are
// those of vm/guest.
package report
