package login

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Search paths of Debian and Ubuntu (login.defs ENV_PATH and ENV_SUPATH, with /sbin for everyone, as Ubuntu's
// /etc/environment has it: a sandbox's user is its administrator).
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Environ is the environment that a login of a gives: what PAM reads from environment and default/locale in
// the directory, and what login(1) sets. extra comes last and may override all of it.
func (e *Etc) Environ(a Account, extra ...map[string]string) map[string]string {
	env := map[string]string{
		"PATH": defaultPath,
		"LANG": "C.UTF-8",
	}
	maps.Copy(env, e.assignments("environment"))
	maps.Copy(env, e.assignments("default/locale"))

	// Programs that pip, npm, cargo and the coding agents install for one user are here; ~/.profile says the same,
	// but a program that is started directly has read no profile.
	if bin := filepath.Join(a.Home, ".local", "bin"); a.UID != 0 && isDir(bin) {
		env["PATH"] = bin + ":" + env["PATH"]
	}
	env["HOME"] = a.Home
	env["USER"] = a.Name
	env["LOGNAME"] = a.Name
	env["SHELL"] = a.Shell
	if dir := "/run/user/" + strconv.FormatUint(uint64(a.UID), 10); isDir(dir) {
		env["XDG_RUNTIME_DIR"] = dir
	}
	for _, m := range extra {
		maps.Copy(env, m)
	}
	return env
}

// List is env in the form of environ(7), sorted.
func List(env map[string]string) []string {
	out := make([]string, 0, len(env))
	for _, k := range slices.Sorted(maps.Keys(env)) {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.IndexByte(env[k], 0) >= 0 {
			continue
		}
		out = append(out, k+"="+env[k])
	}
	return out
}

// LookPath finds a program in the search path of env, or returns file when it has a slash. found is false when
// no directory has such a file; runnable is false when files of that name exist but none may be executed by anyone.
// Whether this user may is for execve(2) to say.
func LookPath(file string, env map[string]string) (path string, found, runnable bool) {
	if strings.Contains(file, "/") {
		// A relative name is relative to the program's directory, which we are not in.
		return file, true, true
	}
	for _, dir := range strings.Split(env["PATH"], ":") {
		// An empty or relative entry means the current directory: where programs of unreviewed
		// repositories lie about.
		if !strings.HasPrefix(dir, "/") {
			continue
		}
		p := filepath.Join(dir, file)
		st, err := os.Stat(p)
		if err != nil || st.IsDir() {
			continue
		}
		found = true
		if st.Mode()&0o111 != 0 {
			return p, true, true
		}
	}
	return "", found, false
}

// HasTerminfo reports whether a terminal is described in one of the places where ncurses looks, terminfo(5).
func HasTerminfo(home, term string) bool {
	if term == "" {
		return false
	}
	for _, dir := range []string{"/usr/share/terminfo", "/lib/terminfo", "/etc/terminfo", filepath.Join(home, ".terminfo")} {
		if _, err := os.Stat(filepath.Join(dir, term[:1], term)); err == nil {
			return true
		}
	}
	return false
}

// assignments reads lines of NAME=VALUE the way pam_env does: an optional "export", quotes around the
// value, no expansion. A file that cannot be read gives nothing.
func (e *Etc) assignments(name string) map[string]string {
	env := make(map[string]string)
	_ = e.lines(name, func(line string) bool {
		k, v, ok := strings.Cut(strings.TrimPrefix(line, "export "), "=")
		k = strings.TrimSpace(k)
		if !ok || !isName(k) {
			return true
		}
		v = strings.TrimSpace(v)
		if len(v) >= 2 && (v[0] == '"' || v[0] == '\'') && v[len(v)-1] == v[0] {
			v = v[1 : len(v)-1]
		}
		env[k] = v
		return len(env) < 256
	})
	return env
}

func isName(s string) bool {
	for i, c := range []byte(s) {
		switch {
		case c == '_', c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z':
		case i > 0 && c >= '0' && c <= '9':
		default:
			return false
		}
	}
	return s != ""
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}
