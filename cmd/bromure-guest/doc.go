// Bromure-guest is the program inside a workspace's machine. The host hands it over at each boot, as the
// initramfs's /init.
//
//	(as process 1)     bring the system up, start the server, become the distribution's init
//	agent [N]          the server: SSH, calls, reports; N servers died quickly before it
//	standby N          wait beside the server and take its place when it dies
//	sftp               serve sftp on standard input and output, for a session
package main
