package build

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"bromure.io/tui/internal/problem"
)

// tools says which Debian package has a program that a build runs.
var tools = map[string]string{
	"mmdebstrap": "mmdebstrap",
	"mke2fs":     "e2fsprogs",
	"debugfs":    "e2fsprogs",
	"e2fsck":     "e2fsprogs",
	"apt-config": "apt",
	"newuidmap":  "uidmap",
}

// tool finds a program. An ordinary user's PATH often lacks the sbin directories.
func tool(name string) (string, error) {
	if p, err := exec.LookPath(name); err == nil {
		return filepath.Abs(p)
	}
	for _, d := range []string{"/usr/sbin", "/sbin"} {
		p := filepath.Join(d, name)
		if fi, err := os.Stat(p); err == nil && fi.Mode().IsRegular() && fi.Mode()&0o111 != 0 {
			return p, nil
		}
	}
	return "", problem.New(problem.Missing, fmt.Sprintf("%s is not installed", name), "sudo apt-get install "+tools[name])
}

// tail keeps the last 8 KiB that are written to it: what a program said before it failed.
type tail struct{ b []byte }

const maxTail = 8 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if over := len(t.b) - maxTail; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string { return string(t.b) }

// head keeps the first 8 KiB that are written to it, for programs that go on after an error.
type head struct{ b []byte }

func (h *head) Write(p []byte) (int, error) {
	h.b = append(h.b, p[:min(len(p), maxTail-len(h.b))]...)
	return len(p), nil
}

func (h *head) String() string { return string(h.b) }
