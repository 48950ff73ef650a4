package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// mod is a module of somebody else's, and the folders of it that hold what we link.
type mod struct {
	path, version string
	dir           string
	folders       map[string]bool // below dir, "." for its root
}

// systems are those that the programs are built for.
var systems = []string{"linux", "darwin"}

// linked lists the modules behind the programs, and the standard library as "Go".
func linked(dir string) ([]*mod, error) {
	mods := map[string]*mod{}
	for _, goos := range systems {
		cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,Standard,Module", "./cmd/...")
		cmd.Dir = dir
		// The architecture is fixed, so that the file is the same wherever it is made.
		cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH=amd64", "CGO_ENABLED=0")
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("go list for %s: %w\n%s", goos, err, stderr.String())
		}
		for dec := json.NewDecoder(bytes.NewReader(out)); ; {
			var p struct {
				ImportPath, Dir string
				Standard        bool
				Module          *struct {
					Path, Version, Dir string
					Main               bool
				}
			}
			if err := dec.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, fmt.Errorf("read the answer of go list: %w", err)
			}
			if p.Standard || p.Module == nil || p.Module.Main {
				continue
			}
			m := mods[p.Module.Path]
			if m == nil {
				m = &mod{path: p.Module.Path, version: p.Module.Version, dir: p.Module.Dir, folders: map[string]bool{}}
				mods[m.path] = m
			}
			rel, err := filepath.Rel(m.dir, p.Dir)
			if err != nil {
				return nil, err
			}
			for rel != "." {
				m.folders[rel] = true
				rel = filepath.Dir(rel)
			}
			m.folders["."] = true
		}
	}
	out := slices.SortedFunc(maps.Values(mods), func(a, b *mod) int { return cmp.Compare(a.path, b.path) })
	return out, nil
}

var licenseName = regexp.MustCompile(`(?i)^(un)?licen[cs]e|^copying|^copyright|^notice|^patents`)

// texts are the licence files of m: in its root and beside what we link, root first.
func (m *mod) texts() (map[string]string, error) {
	texts := map[string]string{}
	for folder := range m.folders {
		entries, err := os.ReadDir(filepath.Join(m.dir, folder))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.IsDir() || !licenseName.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
				continue
			}
			data, err := os.ReadFile(filepath.Join(m.dir, folder, e.Name()))
			if err != nil {
				return nil, err
			}
			texts[filepath.ToSlash(filepath.Join(folder, e.Name()))] = string(data)
		}
	}
	if len(texts) == 0 {
		return nil, fmt.Errorf("module %s has no licence file: it must not be linked", m.path)
	}
	return texts, nil
}

// render makes the file: a list of what is inside, then the texts.
func render(mods []*mod) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("The programs of this project contain the Go standard library and runtime, under the licence of\n" +
		"the Go project, and the modules below. Written by \"make licenses\"; do not edit.\n\n")
	for _, m := range mods {
		fmt.Fprintf(&b, "  %s %s\n", m.path, m.version)
	}
	goroot, err := goLicense()
	if err != nil {
		return nil, err
	}
	section(&b, "The Go standard library and runtime: LICENSE", goroot)
	for _, m := range mods {
		texts, err := m.texts()
		if err != nil {
			return nil, err
		}
		for _, name := range slices.Sorted(maps.Keys(texts)) {
			section(&b, m.path+" "+m.version+": "+name, texts[name])
		}
	}
	return b.Bytes(), nil
}

func section(b *bytes.Buffer, title, text string) {
	line := strings.Repeat("-", 80)
	text = strings.ReplaceAll(strings.TrimRight(text, " \t\r\n"), "\r\n", "\n")
	fmt.Fprintf(b, "\n%s\n%s\n%s\n\n%s\n", line, title, line, text)
}

// goLicense reads the licence that the toolchain carries.
func goLicense() (string, error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w", err)
	}
	data, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "LICENSE"))
	return string(data), err
}
