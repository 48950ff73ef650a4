package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// target is the system to check for, and the module to check.
type target struct{ goos, goarch, dir string }

// listed is what "go list -json" says of a package; fields and meanings are its own.
type listed struct {
	ImportPath, Name, Dir string
	ForTest               string
	GoFiles, CgoFiles     []string
	ImportMap             map[string]string
	Standard, DepOnly     bool
	Error                 *struct{ Err string }
}

const listFields = "ImportPath,Name,Dir,ForTest,GoFiles,CgoFiles,ImportMap,Standard,DepOnly,Error"

// list names the packages that match the patterns and all that they need, by import path.
func (t target) list(patterns []string) (map[string]*listed, error) {
	args := append([]string{"list", "-e", "-deps", "-test", "-json=" + listFields, "--"}, patterns...)
	cmd := exec.Command("go", args...)
	cmd.Dir = t.dir
	cmd.Env = append(os.Environ(), "GOOS="+t.goos, "GOARCH="+t.goarch, "CGO_ENABLED=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	pkgs := map[string]*listed{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		l := new(listed)
		if err := dec.Decode(l); errors.Is(err, io.EOF) {
			return pkgs, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the answer of go list: %w", err)
		}
		if l.Name == "main" && strings.HasSuffix(l.ImportPath, ".test") {
			continue // the generated main of a test binary
		}
		pkgs[l.ImportPath] = l
	}
}
