// Package agent is the part of bromure-guest that stays: a process beside the distribution's init that serves
// SSH, answers the host's calls, and tells the host when the system has come up.
//
// It is started by the program as process 1, gets the boot file and its listener as open files, and survives everything up to the
// last moment of a shutdown: systemd spares programs whose name begins with '@'
// (systemd's docs/ROOT_STORAGE_DAEMONS). A standby waits beside it and takes over when it dies, so
// that a bug or the out-of-memory killer costs sessions, but not the way in. Read agent_linux.go first; start_linux.go is the side of
// process 1.
package agent
