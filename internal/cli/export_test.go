package cli

import (
	"fmt"
	"os"
)

// Panics panics in a goroutine while the terminal is raw.
func Panics() {
	t, err := makeRaw(os.Stdin)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	t.guard(func() { panic("on purpose") })
	select {}
}
