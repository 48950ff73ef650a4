package main

import (
	"bufio"
	"fmt"
	"os"
	"path"
	"strings"
)

// rule is a line of the allow list: package, test and reason, separated by spaces. Package is the end of an
// import path, on an element's border; test is a pattern of path.Match that the test's name or
// that of one of its parents matches. Empty lines and lines that begin with # are comments.
type rule struct{ pkg, test, reason string }

func readAllowed(file string) ([]rule, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var rules []rule
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 3 {
			return nil, fmt.Errorf("%s:%d: want a package, a test and a reason", file, n)
		}
		if _, err := path.Match(fields[1], ""); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, n, err)
		}
		rules = append(rules, rule{fields[0], fields[1], strings.Join(fields[2:], " ")})
	}
	return rules, lines.Err()
}

func match(rules []rule, s skip) (rule, bool) {
	for _, r := range rules {
		if s.pkg != r.pkg && !strings.HasSuffix(s.pkg, "/"+r.pkg) {
			continue
		}
		for name := s.test; ; {
			if ok, _ := path.Match(r.test, name); ok {
				return r, true
			}
			i := strings.LastIndex(name, "/")
			if i < 0 {
				break
			}
			name = name[:i]
		}
	}
	return rule{}, false
}
