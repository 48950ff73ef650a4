package build

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func requireE2fsprogs(t *testing.T) {
	t.Helper()
	for _, name := range []string{"mke2fs", "debugfs", "e2fsck"} {
		if _, err := tool(name); err != nil {
			t.Skipf("this test makes a file system: %v", err)
		}
	}
}

// ask runs one debugfs command on a disk.
func ask(t *testing.T, disk, command string) string {
	t.Helper()
	bin, err := tool("debugfs")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(bin, "-R", command, disk).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func smallTree() tree {
	tr := newTree()
	tr.put("etc/shadow", 0o640, "root:*:1:\n")
	tr["etc/shadow"].gid = 42
	tr.mkdir("home/ubuntu", 0o750)
	tr["home/ubuntu"].uid, tr["home/ubuntu"].gid = 1000, 1000
	tr.put("usr/bin/sudo", 0o4755, "binary")
	tr.put("usr/bin/with \"quotes\" and 'spaces' é", 0o644, "odd name")
	tr.put("usr/bin/empty", 0o600, "")
	tr.symlink("bin", "usr/bin")
	tr.symlink("usr/long", strings.Repeat("a/", 100)+"b")
	tr["usr/bin/sudoedit"] = &node{kind: hardlink, target: "usr/bin/sudo"}
	tr["aaa-first"] = &node{kind: hardlink, target: "usr/bin/sudo"}
	tr.put("usr/bin/ping", 0o755, "ping")
	tr["usr/bin/ping"].xattrs = map[string]string{"security.capability": "\x01\x00\x00\x02\x00\x20\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"}
	for i := range 300 { // more than one block of directory
		tr.put("var/many/"+strings.Repeat("x", 40)+string(rune('a'+i%26))+string(rune('a'+i/26)), 0o644, "")
	}
	tr.mkdir("tmp", 0o1777)
	return tr
}

func TestFileSystem(t *testing.T) {
	requireE2fsprogs(t)
	fs := filesystem{size: 64 << 20, label: "root", uuid: uuid(nil), epoch: time.Unix(1_700_000_000, 0)}
	write := func() string {
		d := t.TempDir()
		disk := filepath.Join(d, "disk")
		if err := fs.write(context.Background(), disk, smallTree(), d); err != nil {
			t.Fatal(err)
		}
		return disk
	}
	disk := write()
	for _, c := range []struct{ command, want string }{
		{"cat /etc/shadow", "root:*:1:\n"},
		{"stat /etc/shadow", "Mode:  0640"},
		{"stat /etc/shadow", "User:     0   Group:    42"},
		{"stat /home/ubuntu", "User:  1000   Group:  1000"},
		{"stat /home/ubuntu", "Mode:  0750"},
		{"stat /usr/bin/sudo", "Mode:  04755"},
		{"stat /usr/bin/sudo", "Links: 3"},
		{"cat /aaa-first", "binary"},
		{"cat /usr/bin/sudoedit", "binary"},
		{"cat \"/usr/bin/with \"\"quotes\"\" and 'spaces' é\"", "odd name"},
		{"stat /bin", `Fast link dest: "usr/bin"`},
		{"cat /usr/long", strings.Repeat("a/", 100) + "b"},
		{"stat /tmp", "Mode:  01777"},
		{"stat /", "Mode:  0755"},
		{"ea_list /usr/bin/ping", "security.capability (20)"},
		{"stat /usr/bin/empty", "Size: 0"},
	} {
		if got := ask(t, disk, c.command); !strings.Contains(got, c.want) {
			t.Errorf("%s: no %q in\n%s", c.command, c.want, got)
		}
	}
	for _, p := range []string{"/", "/etc", "/etc/shadow", "/bin", "/lost+found"} {
		for _, f := range []string{"ctime", "atime", "mtime", "crtime"} {
			if got := ask(t, disk, "stat "+p); !strings.Contains(got, f+": 0x6553f100:00000000") {
				t.Errorf("%s has another %s than the image:\n%s", p, f, got)
			}
		}
	}
	if a, b := read(t, disk), read(t, write()); !bytes.Equal(a, b) {
		t.Error("the same tree gave another disk")
	}
	if st, err := os.Stat(disk); err != nil || st.Size() != fs.size {
		t.Errorf("the disk has %v bytes, %v", st.Size(), err)
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// debugfs exits with 0 after most errors: each must be noticed all the same.
func TestFileSystemErrors(t *testing.T) {
	requireE2fsprogs(t)
	fs := filesystem{size: 8 << 20, label: "root", uuid: uuid(nil), epoch: time.Unix(1_700_000_000, 0)}
	for name, change := range map[string]func(tree){
		"too large":      func(tr tree) { tr.put("big", 0o644, strings.Repeat("x", 16<<20)) },
		"content gone":   func(tr tree) { tr["a"] = &node{kind: file, blob: "/nonexistent/blob"} },
		"link to no one": func(tr tree) { tr["a"] = &node{kind: hardlink, target: "gone"} },
	} {
		d := t.TempDir()
		tr := newTree()
		change(tr)
		err := fs.write(context.Background(), filepath.Join(d, "disk"), tr, d)
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		t.Logf("%s: %v", name, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	d := t.TempDir()
	if err := fs.write(ctx, filepath.Join(d, "disk"), smallTree(), d); err == nil {
		t.Error("a cancelled write made a disk")
	}
}
