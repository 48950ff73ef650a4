package main

import (
	"fmt"
	"os"
	"strconv"

	"bromure.io/tui/vm/guest/agent"
	"bromure.io/tui/vm/guest/initd"
	"bromure.io/tui/vm/guest/sshd"
)

func main() {
	if os.Getpid() == 1 {
		initd.Main(agent.Start)
	}
	var mode string
	if len(os.Args) > 1 {
		mode = os.Args[1]
	}
	var err error
	switch mode {
	case agent.Command:
		first, failures := failures()
		err = agent.Serve(first, failures)
	case agent.StandbyCommand:
		_, n := failures()
		err = agent.Standby(n)
	case "sftp":
		err = sshd.RunSFTP(os.Stdin, os.Stdout)
	default:
		err = fmt.Errorf("this is the program that runs inside a workspace's machine; there is nothing to do here")
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "bromure-guest: %v\n", err)
		os.Exit(1)
	}
}

// failures reads how many servers died quickly before this process. The first server of a boot is not told any number.
func failures() (first bool, n int) {
	if len(os.Args) < 3 {
		return true, 0
	}
	n, err := strconv.Atoi(os.Args[2])
	if err != nil || n < 0 {
		n = 0
	}
	return false, n
}
