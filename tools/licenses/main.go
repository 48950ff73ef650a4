// Licenses writes THIRD_PARTY_LICENSES: the licence texts of everything that is linked into the
// three programs, for every system that they are built for. Without -write it only says whether the file is up to date.
//
//	go run ./tools/licenses [-write]
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
)

const file = "THIRD_PARTY_LICENSES"

func main() {
	write := flag.Bool("write", false, "write the file")
	flag.Parse()
	if err := run(".", *write); err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

// run works in the module whose root is dir.
func run(dir string, write bool) error {
	mods, err := linked(dir)
	if err != nil {
		return err
	}
	text, err := render(mods)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if write {
		return root.WriteFile(file, text, 0o644)
	}
	have, err := root.ReadFile(file)
	if err != nil {
		return err
	}
	if !bytes.Equal(have, text) {
		return fmt.Errorf("%s is out of date: run make licenses", file)
	}
	return nil
}
