package build

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"bromure.io/tui/vm/guest"
)

// userGroups are those that the user is a member of, where they exist.
var userGroups = []string{"adm", "sudo", "users", "plugdev", "netdev", "video", "render", "kvm"}

// addUser adds the user that shells belong to, and stops the clock in the shadow file.
func addUser(t tree, epoch time.Time) error {
	const name, id = guest.User, guest.UserID
	home := guest.HomeDir[1:]
	passwd, err := t.read("etc/passwd")
	if err != nil {
		return err
	}
	for line := range strings.Lines(passwd) {
		if f := strings.Split(line, ":"); len(f) > 3 && (f[0] == name || f[2] == strconv.Itoa(id)) {
			return fmt.Errorf("add user %s: the packages made user %s with ID %s", name, f[0], f[2])
		}
	}
	day := strconv.FormatInt(epoch.Unix()/86400, 10)
	edits := []struct {
		file   string
		change func(string) string
	}{
		{"etc/passwd", appendLine(fmt.Sprintf("%s:x:%d:%d:%s:%s:/bin/bash", name, id, id, "Workspace user", guest.HomeDir))},
		{"etc/shadow", func(s string) string {
			var b strings.Builder
			for line := range strings.Lines(s) {
				if f := strings.Split(line, ":"); len(f) > 2 {
					f[2] = day // of the last change of the password
					line = strings.Join(f, ":")
				}
				b.WriteString(line)
			}
			return appendLine(fmt.Sprintf("%s:*:%s:0:99999:7:::", name, day))(b.String())
		}},
		{"etc/group", func(s string) string {
			return appendLine(fmt.Sprintf("%s:x:%d:", name, id))(addMember(s, 3, name))
		}},
		{"etc/gshadow", func(s string) string { return appendLine(name + ":!::")(addMember(s, 3, name)) }},
	}
	for _, e := range edits {
		if err := t.edit(e.file, e.change); err != nil {
			return fmt.Errorf("add user %s: %w", name, err)
		}
	}
	// Ranges for containers without root (subuid(5)).
	t.put("etc/subuid", 0o644, name+":100000:65536\n")
	t.put("etc/subgid", 0o644, name+":100000:65536\n")

	t.mkdir(home, 0o750)
	t[home].uid, t[home].gid = id, id
	for _, p := range t.paths() {
		rel, ok := strings.CutPrefix(p, "etc/skel/")
		if !ok {
			continue
		}
		n := *t[p]
		n.uid, n.gid = id, id
		t[path.Join(home, rel)] = &n
	}
	return nil
}

func appendLine(line string) func(string) string {
	return func(s string) string {
		if s != "" && !strings.HasSuffix(s, "\n") {
			s += "\n"
		}
		return s + line + "\n"
	}
}

// addMember adds name to userGroups in the text of group(5) or gshadow(5), whose member list is field i.
func addMember(text string, i int, name string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if len(f) == i+1 && slices.Contains(userGroups, f[0]) {
			if f[i] != "" {
				f[i] += ","
			}
			f[i] += name
		}
		b.WriteString(strings.Join(f, ":") + "\n")
	}
	return b.String()
}
