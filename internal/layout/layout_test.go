package layout

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func env(kv ...string) func(string) string {
	return func(key string) string {
		for i := 0; i < len(kv); i += 2 {
			if kv[i] == key {
				return kv[i+1]
			}
		}
		return ""
	}
}

func TestDefaultRoot(t *testing.T) {
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	data := "/home/u/.local/share/bromure"
	if runtime.GOOS == "darwin" {
		data = "/home/u/Library/Application Support/Bromure TUI"
	}
	for _, c := range []struct {
		getenv func(string) string
		want   string
		linux  bool
	}{
		{env("BROMURE_HOME", "/b", "HOME", "/home/u", "XDG_DATA_HOME", "/x"), "/b", false},
		{env("BROMURE_HOME", "/b/../c/"), "/c", false},
		{env("BROMURE_HOME", "rel"), filepath.Join(wd, "rel"), false},
		{env("HOME", "/home/u"), data, false},
		{env("HOME", "/home/u", "XDG_DATA_HOME", "/x"), "/x/bromure", true},
		{env("XDG_DATA_HOME", "/x"), "/x/bromure", true},
		{env("HOME", "/home/u", "XDG_DATA_HOME", "relative is ignored"), "/home/u/.local/share/bromure", true},
		{env(), "", false},
		{env("HOME", "rel"), "", true},
	} {
		if c.linux && runtime.GOOS == "darwin" {
			continue
		}
		got, err := DefaultRoot(c.getenv)
		if string(got) != c.want || (err != nil) != (c.want == "") {
			t.Errorf("DefaultRoot = %q, %v, want %q", got, err, c.want)
		}
	}
}

// Whatever the data root, the home directory and $XDG_RUNTIME_DIR are, every socket's path is one that the
// kernel takes whole; it is bound here to be sure (F73).
func TestSocketPathsFit(t *testing.T) {
	long := "/tmp/" + strings.Repeat("a", 90)
	id := "0123456789abcdef0123456789abcdef"
	for _, getenv := range []func(string) string{
		env(), env("XDG_RUNTIME_DIR", "/run/user/1000"), env("XDG_RUNTIME_DIR", long), env("XDG_RUNTIME_DIR", "relative"),
		env("TMPDIR", long), env("HOME", long),
		env("XDG_RUNTIME_DIR", "/"+strings.Repeat("r", 61)), env("XDG_RUNTIME_DIR", "/"+strings.Repeat("r", 70)),
		env("XDG_RUNTIME_DIR", "/"+strings.Repeat("\u00e9", 40)), // bytes count, not letters
	} {
		for _, root := range []Root{"/b", Root(long + "/.local/share/bromure"), Root(strings.Repeat("/d", 2000))} {
			r := RuntimeFor(root, getenv, 4294967294)
			m := r.Machine(id)
			for _, path := range []string{r.ControlSocket(), m.QMP(), m.Serial(), m.NetHost(), m.NetGuest(), m.Initrd(), m.Keys()} {
				if !filepath.IsAbs(path) {
					t.Errorf("%s is not absolute", path)
				}
				if err := CheckSocket(path); err != nil {
					t.Error(err)
				}
			}
		}
	}
	// The limit is the kernel's: a path of that length can be bound, a longer one cannot.
	dir, err := os.MkdirTemp("/tmp", "s")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	for _, n := range []int{MaxSocketPath(), MaxSocketPath() + 1} {
		path := dir + "/" + strings.Repeat("s", n-len(dir)-1)
		l, err := net.Listen("unix", path)
		if (err == nil) != (CheckSocket(path) == nil) {
			t.Errorf("a path of %d bytes: bind says %v, CheckSocket says %v", n, err, CheckSocket(path))
		}
		if err == nil {
			l.Close()
		}
	}
}

// Two roots never share a runtime directory, nor two users or two workspaces a socket (F73).
func TestRuntimeIsNotShared(t *testing.T) {
	seen := map[string]string{}
	add := func(path, whose string) {
		t.Helper()
		if other, ok := seen[path]; ok && other != whose {
			t.Errorf("%s and %s share %s", other, whose, path)
		}
		seen[path] = whose
	}
	base := "/home/" + strings.Repeat("a", 200)
	for i := range 300 {
		root := Root(fmt.Sprintf("%s%d", base, i)) // they differ in the last characters only
		for uid := range 2 {
			add(string(RuntimeFor(root, env(), 1000+uid)), fmt.Sprint(root, uid))
		}
		add(string(RuntimeFor(root, env("XDG_RUNTIME_DIR", "/run/user/1000"), 1000)), fmt.Sprint(root, " xdg"))
	}
	r := RuntimeFor("/b", env(), 1000)
	if r != RuntimeFor("/b", env("TMPDIR", "/elsewhere", "HOME", "/home/u"), 1000) {
		t.Error("the runtime directory depends on the environment of the process")
	}
	if a, b := r.Machine("0123456789ab0"), r.Machine("0123456789ac0"); a == b {
		t.Errorf("two machines share %s", a)
	}
	if m := string(r.Machine("ab")); filepath.Base(m) != "ab" { // no panic on what is no ID
		t.Errorf("Machine(ab) = %s", m)
	}
}

// Every path is below the root, and no two things have the same.
func TestPathsAreDistinct(t *testing.T) {
	r := Root("/root")
	w, m := r.Workspace("ID"), r.Image("REF")
	paths := []string{
		r.DaemonLock(), r.Endpoint(), r.MACs(), r.Settings(), r.Logs(), r.DaemonLog(), r.Trash(), r.Workspaces(), r.Images(), r.AccelCache(), r.WorkspacesLock(),
		string(r.NewWorkspace("ID")), string(w), w.Lock(), w.Config(), w.Disk(), w.Home(), w.State(), w.Names(), w.Compromised(), w.Logs(),
		string(m), m.Base(), m.Kernel(), m.Initrd(), m.Manifest(),
	}
	for _, k := range LogKinds {
		paths = append(paths, w.Log(k))
	}
	seen := map[string]bool{}
	for _, p := range paths {
		if !strings.HasPrefix(p, "/root/") || filepath.Clean(p) != p || seen[p] {
			t.Errorf("path %q", p)
		}
		seen[p] = true
	}
	for _, p := range []string{r.WorkspacesLock(), string(r.NewWorkspace("ID"))} {
		if filepath.Dir(p) != r.Workspaces() || filepath.Base(p)[0] != '.' {
			t.Errorf("%s could be taken for a workspace", p)
		}
	}
}

func TestEnsure(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	for range 2 {
		if err := Ensure(dir); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{dir, filepath.Dir(dir)} {
		if fi, err := os.Stat(d); err != nil || fi.Mode().Perm() != DirMode {
			t.Errorf("%s: %v, %v", d, fi.Mode(), err)
		}
	}
	for _, mode := range []os.FileMode{0o755, 0o710, 0o701, 0o777} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if err := Ensure(dir); err == nil {
			t.Errorf("a directory of mode %o passes", mode)
		}
	}
	if err := os.Chmod(dir, DirMode); err != nil {
		t.Fatal(err)
	}
	link, file := dir+"-link", dir+"-file"
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := Ensure(link); err == nil {
		t.Error("a symbolic link to a private directory passes: its owner could turn it elsewhere")
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Ensure(file); err == nil {
		t.Error("a file passes")
	}
	if os.Getuid() == 0 {
		if err := os.Chown(dir, 12345, -1); err != nil {
			t.Fatal(err)
		}
		if err := Ensure(dir); err == nil {
			t.Error("a directory of another user passes")
		}
	}
}
