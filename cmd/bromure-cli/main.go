// Command bromure-cli is one name of the command tree in internal/cli.
package main

import (
	"os"

	"bromure.io/tui/internal/cli/program"
)

var version = "dev" // set when the program is built: -ldflags "-X main.version=…"

func main() { os.Exit(program.Main("bromure-cli", version, nil)) }
