// Command bromure-tui is the TUI, and another name of the command tree in internal/cli.
package main

import (
	"os"

	"bromure.io/tui/internal/cli/program"
	"bromure.io/tui/ui"
)

var version = "dev" // set when the program is built: -ldflags "-X main.version=…"

func main() { os.Exit(program.Main("bromure-tui", version, ui.Run)) }
