package agent

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// listenNotify opens the socket on which the distribution's init reports. The kernel adds who sent a message.
func listenNotify(address string) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the notify socket: %w", err)
	}
	f := os.NewFile(uintptr(fd), "notify")
	if err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err == nil {
		err = unix.Bind(fd, &unix.SockaddrUnix{Name: address})
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("open the notify socket: %w", err)
	}
	return f, nil
}

// waitReady returns when process 1 has said that the system has come up: systemd does so once the jobs of its start are
// done, that is when its default target is reached or has failed (sd_notify(3), "READY=1").
func waitReady(f *os.File) error {
	for {
		text, from, err := receive(f)
		if err != nil {
			return fmt.Errorf("wait for the distribution's init: %w", err)
		}
		if from == 1 && saysReady(text) {
			return nil
		}
	}
}

// receive returns the next message and the process that sent it, as the kernel says.
func receive(f *os.File) (text []byte, from int32, err error) {
	text, oob := make([]byte, 4096), make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	for {
		n, oobn, _, _, err := unix.Recvmsg(int(f.Fd()), text, oob, unix.MSG_CMSG_CLOEXEC)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		return text[:n], sender(oob[:oobn]), nil
	}
}

// sender is the process that sent a message, or 0.
func sender(oob []byte) int32 {
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return 0
	}
	for _, m := range msgs {
		if cred, err := unix.ParseUnixCredentials(&m); err == nil {
			return cred.Pid
		}
	}
	return 0
}

// saysReady reads a message of sd_notify(3): assignments, one a line.
func saysReady(b []byte) bool {
	for line := range bytes.Lines(b) {
		if string(bytes.TrimSuffix(line, []byte("\n"))) == "READY=1" {
			return true
		}
	}
	return false
}
