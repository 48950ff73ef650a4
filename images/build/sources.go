package build

import (
	"bufio"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"
)

// source is one package source: a line of sources.list(5).
type source struct {
	uri        string
	suite      string
	components []string
	signedBy   string // a path, or empty
}

// line is the source as a line of sources.list, signed by the keyring given.
func (s source) line(keyring string) string {
	opt := ""
	if keyring != "" {
		opt = "[signed-by=" + keyring + "] "
	}
	return "deb " + opt + s.uri + " " + s.suite + " " + strings.Join(s.components, " ")
}

// public is the source without what only this host may know: a user name or password in its address.
func (s source) public() source {
	if u, err := url.Parse(s.uri); err == nil && u.User != nil {
		u.User = nil
		s.uri = u.String()
	}
	return s
}

// readSources reads every enabled binary package source of a host: sources.list and sources.list.d below etc/apt
// of the file system given. Files that cannot be read or parsed are skipped: apt warns of them, the image does not need them.
func readSources(host fs.FS) []source {
	names := []string{"etc/apt/sources.list"}
	entries, _ := fs.ReadDir(host, "etc/apt/sources.list.d")
	for _, e := range entries {
		names = append(names, path.Join("etc/apt/sources.list.d", e.Name()))
	}
	var out []source
	for _, name := range names {
		b, err := fs.ReadFile(host, name)
		if err != nil {
			continue
		}
		switch path.Ext(name) { // apt ignores other names, ".list.disabled" for one
		case ".list":
			out = append(out, parseList(string(b))...)
		case ".sources":
			out = append(out, parseDeb822(string(b))...)
		}
	}
	return out
}

// parseList reads the one-line style of sources.list(5).
func parseList(text string) []source {
	var out []source
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "deb")
		if !ok || rest == "" || rest[0] != ' ' && rest[0] != '\t' { // deb-src
			continue
		}
		rest = strings.TrimSpace(rest)
		var options string
		if strings.HasPrefix(rest, "[") {
			if options, rest, ok = strings.Cut(rest[1:], "]"); !ok {
				continue
			}
		}
		f := strings.Fields(rest)
		if len(f) < 2 {
			continue
		}
		s := source{uri: f[0], suite: f[1], components: f[2:]}
		for _, o := range strings.Fields(options) {
			if k, v, _ := strings.Cut(o, "="); strings.EqualFold(k, "signed-by") {
				s.signedBy = v
			}
		}
		out = append(out, s)
	}
	return out
}

// parseDeb822 reads the deb822 style of sources.list(5).
func parseDeb822(text string) []source {
	var out []source
	var fields map[string]string
	var last string
	flush := func() {
		if fields != nil {
			out = append(out, stanza(fields)...)
		}
		fields, last = nil, ""
	}
	sc := bufio.NewScanner(strings.NewReader(text))
	for sc.Scan() {
		line := sc.Text()
		switch {
		case strings.TrimSpace(line) == "":
			flush()
		case strings.HasPrefix(line, "#"):
		case line[0] == ' ' || line[0] == '\t':
			if last != "" {
				fields[last] += "\n" + strings.TrimSpace(line)
			}
		default:
			k, v, ok := strings.Cut(line, ":")
			if !ok {
				continue
			}
			if fields == nil {
				fields = map[string]string{}
			}
			last = strings.ToLower(strings.TrimSpace(k))
			fields[last] = strings.TrimSpace(v)
		}
	}
	flush()
	return out
}

// stanza makes the sources that one deb822 paragraph stands for.
func stanza(f map[string]string) []source {
	if slices.Contains([]string{"no", "false", "without", "off", "disable", "0"}, strings.ToLower(f["enabled"])) ||
		!slices.Contains(strings.Fields(f["types"]), "deb") {
		return nil
	}
	var out []source
	for _, uri := range strings.Fields(f["uris"]) {
		for _, suite := range strings.Fields(f["suites"]) {
			out = append(out, source{uri: uri, suite: suite, components: strings.Fields(f["components"]), signedBy: f["signed-by"]})
		}
	}
	return out
}

// pockets are the endings of suites that an image is built from. Backports and proposed updates are left to the user.
var pockets = []string{"", "-updates", "-security"}

// choose picks from a host's sources those that are distribution d's own for the release hostSuite, and says them for suite.
// Others have the same suite names, so the components and the keyring have to fit too.
func (d *distro) choose(all []source, hostSuite, suite string) []source {
	var out []source
	for _, s := range all {
		pocket, ok := strings.CutPrefix(s.suite, hostSuite)
		if !ok || !slices.Contains(pockets, pocket) {
			continue
		}
		u, err := url.Parse(s.uri)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			continue // cdrom:, file: and the like do not work in a guest
		}
		if s.signedBy != "" && !slices.Contains(d.keyrings, s.signedBy) {
			continue
		}
		s.components = slices.DeleteFunc(slices.Clone(s.components), func(c string) bool { return !slices.Contains(d.components, c) })
		if len(s.components) == 0 {
			continue
		}
		s.suite, s.signedBy = suite+pocket, ""
		if !slices.ContainsFunc(out, func(o source) bool { return o.line("") == s.line("") }) {
			out = append(out, s)
		}
	}
	return out
}

// deb822 is the content of the image's own sources file.
func deb822(sources []source, keyring string) string {
	var b strings.Builder
	for i, s := range sources {
		if i > 0 {
			b.WriteByte('\n')
		}
		s = s.public()
		fmt.Fprintf(&b, "Types: deb\nURIs: %s\nSuites: %s\nComponents: %s\nSigned-By: %s\n", s.uri, s.suite, strings.Join(s.components, " "), keyring)
	}
	return b.String()
}
