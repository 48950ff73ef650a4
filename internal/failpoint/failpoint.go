// Package failpoint marks the places where something on disk has just changed, so that a test can end the process
// exactly there and see what the next one makes of it. Outside of such a test a point costs one atomic load.
package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// hook is what a point calls; nil nearly always. It is the package's only state, and only [FromEnv] and tests set it.
var hook atomic.Pointer[func(name string)]

// Here marks a place. name says what has just happened, for the list that a harness prints.
func Here(name string) {
	if f := hook.Load(); f != nil {
		(*f)(name)
	}
}

// Set replaces what points call and returns a function that puts back what it was.
func Set(f func(name string)) (restore func()) {
	old := hook.Swap(&f)
	return func() { hook.Store(old) }
}

// Env is the variable that [FromEnv] reads: "N" ends this process at its Nth point as kill -9 does; "log:PATH" appends the name of
// every point to a file instead.
const Env = "BROMURE_FAILPOINT"

// FromEnv arms the points as the environment says. An empty variable does nothing.
func FromEnv(getenv func(string) string) error {
	text := getenv(Env)
	if text == "" {
		return nil
	}
	if path, ok := strings.CutPrefix(text, "log:"); ok {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		Set(func(name string) { fmt.Fprintln(f, name) })
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return fmt.Errorf("%s is %q: it takes a number from 1, or log:PATH", Env, text)
	}
	var seen atomic.Int64
	Set(func(string) {
		if seen.Add(1) == n {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal is on its way: nothing after this point may happen
		}
	})
	return nil
}
