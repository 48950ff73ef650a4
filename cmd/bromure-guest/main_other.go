//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "bromure-guest: this program runs inside a workspace's machine, on Linux")
	os.Exit(1)
}
