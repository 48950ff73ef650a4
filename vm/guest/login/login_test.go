package login

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestLookup(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "passwd", `# comment
root:x:0:0:root:/root:/bin/bash
short:x:1
ubuntu:x:1000:1000:Ubuntu,,,:/home/ubuntu:/bin/zsh
noshell:x:1001:1001::relative:
minus:x:4294967295:1::/:/bin/sh
big:x:4294967296:1::/:/bin/sh
word:x:a:1::/:/bin/sh
ubuntu:x:0:0:second:/root:/bin/sh
`)
	write(t, dir, "group", "root:x:0:\nsudo:x:27:other,ubuntu\ntty:x:5:\nubuntu:x:1000:ubuntu\nlist:x:ubuntu:ubuntu\ndocker:x:999:ubuntu,ubuntu2\nalmost:x:998:ubuntu2\nlast:x:4294967295:ubuntu\n")
	a, err := New(dir).Lookup("ubuntu")
	if err != nil {
		t.Fatal(err)
	}
	if a.Name != "ubuntu" || a.UID != 1000 || a.GID != 1000 || a.Home != "/home/ubuntu" || a.Shell != "/bin/zsh" || !slices.Equal(a.Groups, []uint32{1000, 27, 999}) {
		t.Errorf("ubuntu is %+v", a)
	}
	if a, err := New(dir).Lookup("noshell"); err != nil || a.Shell != "/bin/sh" || a.Home != "/" {
		t.Errorf("noshell is %+v, %v", a, err)
	}
	for _, name := range []string{"short", "minus", "big", "word"} {
		if a, err := New(dir).Lookup(name); err == nil {
			t.Errorf("%s is %+v", name, a)
		}
	}
	if _, err := New(dir).Lookup("nobody"); !errors.Is(err, ErrUnknown) {
		t.Errorf("nobody: %v", err)
	}
	if g, ok := New(dir).GroupID("tty"); !ok || g != 5 {
		t.Errorf("tty: %d, %v", g, ok)
	}
	if _, ok := New(dir).GroupID("list"); ok {
		t.Error("a group without a number was found")
	}
	if _, err := New(t.TempDir()).Lookup("ubuntu"); err == nil {
		t.Error("found without a file")
	}
}

// A file that is none, or that is large, must not hang or fill the server.
func TestFilesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "passwd"), 0o644); err != nil {
		t.Skip(err)
	}
	if _, err := New(dir).Lookup("ubuntu"); err == nil {
		t.Error("a FIFO was read")
	}
	if err := os.Remove(filepath.Join(dir, "passwd")); err != nil {
		t.Fatal(err)
	}
	write(t, dir, "passwd", strings.Repeat("x\n", maxFile)+"\nubuntu:x:1:1::/:/bin/sh\n")
	if _, err := New(dir).Lookup("ubuntu"); err == nil {
		t.Error("read behind the limit")
	}
}

// What is kept is never older than the files.
func TestChangesAreSeen(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "group", "")
	e := New(dir)
	old := time.Now().Add(-time.Hour)
	for i, want := range []string{"/one", "/two", "/six"} { // of one length
		line := "ubuntu:x:1:1::" + want + ":/bin/sh\n"
		if i == 1 {
			// In place, and made to look as old as before; its ctime gives it away.
			f, err := os.OpenFile(filepath.Join(dir, "passwd"), os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.WriteString(line)
			if err = errors.Join(err, f.Close()); err != nil {
				t.Fatal(err)
			}
		} else {
			// As editors and apt do it.
			write(t, dir, "new", line)
			if err := os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "passwd")); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chtimes(filepath.Join(dir, "passwd"), old, old); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if a, err := e.Lookup("ubuntu"); err != nil || a.Home != want {
				t.Errorf("home is %s, want %s, %v", a.Home, want, err)
			}
		}
	}
	if len(e.files) != 0 {
		t.Error("a file was kept that has just changed")
	}
	// Once it has been left alone it is kept, until it changes again.
	e.now = func() time.Time { return time.Now().Add(time.Hour) }
	for _, want := range []string{"/six", "/ten"} {
		if want == "/ten" {
			write(t, dir, "passwd", "ubuntu:x:1:1::/ten:/bin/sh\n")
		}
		for range 2 {
			if a, err := e.Lookup("ubuntu"); err != nil || a.Home != want {
				t.Errorf("home is %s, want %s, %v", a.Home, want, err)
			}
		}
		if _, ok := e.files["passwd"]; !ok {
			t.Error("a file that is left alone is not kept")
		}
	}
}

func TestEnviron(t *testing.T) {
	etc, home := t.TempDir(), t.TempDir()
	a := Account{Name: "ubuntu", UID: 4000001, Home: home, Shell: "/bin/bash"}
	env := New(etc).Environ(a)
	if env["PATH"] != defaultPath || env["LANG"] != "C.UTF-8" || env["HOME"] != home || env["USER"] != "ubuntu" || env["SHELL"] != "/bin/bash" || env["XDG_RUNTIME_DIR"] != "" {
		t.Errorf("without files: %v", env)
	}
	write(t, etc, "environment", "# c\nPATH=\"/a:/b\"\nexport E='x y'\nHOME=/evil\nBAD NAME=1\n=x\nEMPTY=\nQ=\"unbalanced\n")
	write(t, etc, "default/locale", "LANG=de_DE.UTF-8\n")
	if err := os.MkdirAll(filepath.Join(home, ".local", "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	env = New(etc).Environ(a, map[string]string{"MINE": "1"}, map[string]string{"MINE": "2", "LANG": "C"})
	for k, want := range map[string]string{
		"PATH": home + "/.local/bin:/a:/b", "E": "x y", "HOME": home, "LANG": "C", "MINE": "2", "EMPTY": "", "Q": "\"unbalanced",
	} {
		if env[k] != want {
			t.Errorf("%s is %q, want %q", k, env[k], want)
		}
	}
	if _, ok := env["BAD NAME"]; ok {
		t.Error("a name with a blank was taken")
	}
	list := List(map[string]string{"B": "2", "A": "1", "": "x", "C=D": "x", "N": "a\x00b"})
	if !slices.Equal(list, []string{"A=1", "B=2"}) {
		t.Errorf("list %q", list)
	}
}

func TestHasTerminfo(t *testing.T) {
	home := t.TempDir()
	write(t, home, ".terminfo/x/xterm-of-ours", "x")
	for term, want := range map[string]bool{"xterm-of-ours": true, "": false, "no-such-terminal": false} {
		if got := HasTerminfo(home, term); got != want {
			t.Errorf("%q: %v", term, got)
		}
	}
}

func TestLookPath(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	write(t, one, "tool", "x")
	write(t, two, "tool", "x")
	write(t, one, "plain", "x")
	if err := os.Chmod(filepath.Join(two, "tool"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(one, "dir"), 0o755); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"PATH": "::.:relative:" + one + ":" + two}
	tests := []struct {
		file, path      string
		found, runnable bool
	}{
		{"tool", two + "/tool", true, true},
		{"plain", "", true, false},
		{"dir", "", false, false},
		{"none", "", false, false},
		{"./x", "./x", true, true},
		{"/x", "/x", true, true},
	}
	for _, tt := range tests {
		if p, found, runnable := LookPath(tt.file, env); p != tt.path || found != tt.found || runnable != tt.runnable {
			t.Errorf("%s: %q, %v, %v", tt.file, p, found, runnable)
		}
	}
}

func FuzzFiles(f *testing.F) {
	f.Add("ubuntu:x:1000:1000::/home/ubuntu:/bin/bash\n", "sudo:x:27:ubuntu\n", "PATH=\"/bin\"\n")
	f.Fuzz(func(t *testing.T, passwd, group, environment string) {
		dir := t.TempDir()
		write(t, dir, "passwd", passwd)
		write(t, dir, "group", group)
		write(t, dir, "environment", environment)
		a, err := New(dir).Lookup("ubuntu")
		if err != nil {
			return
		}
		if len(a.Groups) == 0 || a.Groups[0] != a.GID || a.Shell == "" || !strings.HasPrefix(a.Home, "/") || a.UID == 1<<32-1 {
			t.Errorf("account %+v", a)
		}
		for _, kv := range List(New(dir).Environ(a)) {
			if strings.IndexByte(kv, 0) >= 0 || strings.IndexByte(kv, '=') < 1 {
				t.Errorf("environment %q", kv)
			}
		}
	})
}
