package failpoint

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestMain(m *testing.M) {
	if os.Getenv("FAILPOINT_TEST_CHILD") != "" {
		if err := FromEnv(os.Getenv); err != nil {
			os.Exit(3)
		}
		for _, name := range []string{"a", "b", "c"} {
			_, _ = os.Stdout.WriteString(name)
			Here(name)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestFromEnv(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	for _, c := range []struct {
		env, out string
		killed   bool
		code     int
	}{
		{env: "", out: "abc"},
		{env: "1", out: "a", killed: true},
		{env: "3", out: "abc", killed: true},
		{env: "4", out: "abc"},
		{env: "log:" + log, out: "abc"},
		{env: "0", code: 3}, {env: "-1", code: 3}, {env: "x", code: 3}, {env: "log:/no/such/dir/log", code: 3},
	} {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "FAILPOINT_TEST_CHILD=1", Env+"="+c.env)
		out, _ := cmd.Output()
		st := cmd.ProcessState.Sys().(syscall.WaitStatus)
		if string(out) != c.out || (st.Signaled() && st.Signal() == syscall.SIGKILL) != c.killed || !c.killed && st.ExitStatus() != c.code {
			t.Errorf("%q: %q, %v", c.env, out, cmd.ProcessState)
		}
	}
	data, err := os.ReadFile(log)
	if err != nil || string(data) != "a\nb\nc\n" {
		t.Errorf("log %q, %v", data, err)
	}
}

func TestSet(t *testing.T) {
	var seen []string
	Here("before")
	restore := Set(func(name string) { seen = append(seen, name) })
	Here("one")
	inner := Set(func(string) { seen = append(seen, "inner") })
	Here("x")
	inner()
	Here("two")
	restore()
	Here("after")
	if want := []string{"one", "inner", "two"}; !slices.Equal(seen, want) {
		t.Errorf("seen %s", strings.Join(seen, " "))
	}
}
