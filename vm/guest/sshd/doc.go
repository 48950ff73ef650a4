// Package sshd is the SSH server of bromure-guest: the only way into a workspace. It runs as root in
// the VM and starts programs as the workspace's user.
//
// Standard clients get what they know (shell, exec, pty, signals, sftp, port forwarding to the guest
// itself). The daemon's link uses three requests of ours beside them, see vm/guest: a program
// without a shell, a console that outlives its channel, and calls. One client key may log in, the one
// of this boot. Read server.go first, then session.go.
//
// It must not know: hosts, workspaces, anything outside this VM.
package sshd
