package build

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const smallStatus = `Package: sudo
Status: install ok installed
Version: 1.9.13p3-1

Package: gone
Status: deinstall ok config-files
Version: 1

Package: bash
Status: install ok installed
Conffiles:
 /etc/bash.bashrc 3f9
Description: a shell
 Version: not a field
Version: 5.2.15-2
`

// bootstrapped is a tree like a bootstrap's, with little in it.
func bootstrapped(t *testing.T) tree {
	t.Helper()
	tr := newTree()
	put := func(name, content string) { tr.put(name, 0o644, content) }
	put("etc/passwd", "root:x:0:0:root:/root:/bin/bash\nman:x:6:12::/var/cache/man:/usr/sbin/nologin\n")
	put("etc/shadow", "root:*:20787:0:99999:7:::\nman:*:20787:0:99999:7:::\n")
	put("etc/group", "root:x:0:\nadm:x:4:syslog\nsudo:x:27:\n")
	put("etc/gshadow", "root:*::\nadm:*::syslog\nsudo:*::\n")
	put("etc/passwd-", "old")
	put("etc/skel/.bashrc", "# bashrc\n")
	put("etc/hostname", "builder")
	put("etc/apt/apt.conf.d/99mmdebstrap", "Acquire::http::Proxy \"http://host.example\";\n")
	put("etc/apt/sources.list.d/0000debian.sources", "Types: deb\n")
	put("etc/modules-load.d/modules.conf", "")
	put("var/lib/dpkg/status", smallStatus)
	put("var/lib/dpkg/status-old", smallStatus)
	put("var/lib/dpkg/info/sudo.md5sums", "0123456789abcdef0123456789abcdef  usr/bin/sudo\nffff  lib/udev/rule\n")
	put("var/log/dpkg.log", "2026-11-30 startup")
	put("var/cache/ldconfig/aux-cache", "times")
	put("usr/bin/sudo", "sudo")
	put("usr/lib/udev/rule", "rule")
	put("usr/share/doc/sudo/copyright", "licence")
	put("usr/share/doc/sudo/changelog.gz", "changes")
	put("usr/share/man/man8/sudo.8.gz", "manual")
	put("usr/lib/python3/__pycache__/a.pyc", "compiled")
	put("usr/lib/systemd/system/systemd-sysctl.service", "[Service]\nType=oneshot\nLoadCredential=sysctl.extra\n")
	put("usr/share/keyrings/debian-archive-keyring.gpg", "key")
	tr["usr/bin/sudo"].mtime = time.Date(2025, 3, 4, 5, 6, 7, 0, time.UTC)
	tr["usr/lib/udev/rule"].mtime = time.Date(2026, 1, 2, 3, 4, 5, 9, time.UTC)
	tr["etc/passwd"].mtime = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC) // made by the bootstrap

	const release = "6.1.0-57-cloud-amd64"
	root := kernelDir + "/root"
	put(kernelDir+"/release", release+"\n")
	put(kernelDir+"/packages", "linux-image-"+release+" 6.1.192-3\n")
	kernel := testELF(62, pvhNote)
	put(root+"/boot/vmlinuz-"+release, string(testBzImage(packed(t, "lz4", kernel), len(kernel), false)))
	put(root+"/boot/config-"+release, "CONFIG_PVH=y")
	modules := root + "/lib/modules/" + release
	put(modules+"/modules.dep", smallDep)
	put(modules+"/modules.builtin", smallBuiltin)
	tr.symlink(modules+"/build", "/usr/src/linux-headers")
	for line := range strings.Lines(smallDep) {
		file, _, _ := strings.Cut(line, ":")
		put(modules+"/"+file, string(packed(t, "xz", []byte("module "+moduleName(file)))))
	}
	return tr
}

func TestCleanAndConfigure(t *testing.T) {
	p, err := makePlan(debianHost(), "", "", "amd64")
	if err != nil {
		t.Fatal(err)
	}
	tr := bootstrapped(t)
	k, packages, err := clean(tr)
	if err != nil {
		t.Fatal(err)
	}
	want := []pkg{{Name: "bash", Version: "5.2.15-2"}, {Name: "linux-image-6.1.0-57-cloud-amd64", Version: "6.1.192-3"}, {Name: "sudo", Version: "1.9.13p3-1"}}
	if d := cmp.Diff(want, packages); d != "" {
		t.Error(d)
	}
	epoch, err := packageTime(tr)
	if err != nil || !epoch.Equal(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) {
		t.Errorf("the packages' time is %v, %v", epoch, err)
	}
	if err := p.configure(tr, k, epoch); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{"etc/passwd-", "etc/hostname", "etc/apt/apt.conf.d/99mmdebstrap", "etc/apt/sources.list.d/0000debian.sources",
		"etc/modules-load.d/modules.conf", "var/lib/dpkg/status-old", "var/log/dpkg.log", "var/cache/ldconfig/aux-cache",
		"usr/share/doc/sudo/changelog.gz", "usr/share/man/man8/sudo.8.gz", "usr/lib/python3/__pycache__", kernelDir,
		"usr/lib/modules/6.1.0-57-cloud-amd64/build", "boot/config-6.1.0-57-cloud-amd64"} {
		if tr[gone] != nil {
			t.Errorf("%s is in the image", gone)
		}
	}
	day := "20455" // epoch, in days
	for name, content := range map[string]string{
		"etc/passwd":                   "root:x:0:0:root:/root:/bin/bash\nman:x:6:12::/var/cache/man:/usr/sbin/nologin\nubuntu:x:1000:1000:Workspace user:/home/ubuntu:/bin/bash\n",
		"etc/shadow":                   "root:*:" + day + ":0:99999:7:::\nman:*:" + day + ":0:99999:7:::\nubuntu:*:" + day + ":0:99999:7:::\n",
		"etc/group":                    "root:x:0:\nadm:x:4:syslog,ubuntu\nsudo:x:27:ubuntu\nubuntu:x:1000:\n",
		"etc/gshadow":                  "root:*::\nadm:*::syslog,ubuntu\nsudo:*::ubuntu\nubuntu:!::\n",
		"etc/hosts":                    "127.0.0.1\tlocalhost\n",
		"etc/machine-id":               "",
		"etc/resolv.conf":              "nameserver 192.168.127.1\n",
		"etc/sudoers.d/90-ubuntu":      "ubuntu ALL=(ALL:ALL) NOPASSWD: ALL\n",
		"home/ubuntu/.bashrc":          "# bashrc\n",
		"usr/share/doc/sudo/copyright": "licence",
		"etc/apt/sources.list.d/debian.sources": "Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm\nComponents: main\n" +
			"Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg\n\nTypes: deb\nURIs: http://mirror.example/debian-security\n" +
			"Suites: bookworm-security\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n",
		"etc/systemd/system/systemd-sysctl.service.d/no-credentials.conf": "[Service]\nLoadCredential=\n",
	} {
		if got, err := tr.read(name); err != nil || got != content {
			t.Errorf("%s: %v\n%s", name, err, cmp.Diff(content, got))
		}
	}
	if pin, _ := tr.read("etc/apt/preferences.d/workspace-kernel"); !strings.Contains(pin, "Package: linux-image-6.1.0-57-cloud-amd64\nPin: release *\nPin-Priority: -1\n") {
		t.Errorf("the kernel is not pinned:\n%s", pin)
	}
	for name, want := range map[string]node{
		"home/ubuntu":                          {kind: dir, mode: 0o750, uid: 1000, gid: 1000},
		"home/ubuntu/.bashrc":                  {kind: file, mode: 0o644, uid: 1000, gid: 1000},
		"etc/sudoers.d/90-ubuntu":              {kind: file, mode: 0o440},
		"etc/shadow":                           {kind: file, mode: 0o644},
		"etc/systemd/system/getty.target":      {kind: symlink, mode: 0o777, target: "/dev/null"},
		"etc/systemd/system/default.target":    {kind: symlink, mode: 0o777, target: "/lib/systemd/system/multi-user.target"},
		"usr/lib/modules/6.1.0-57-cloud-amd64": {kind: dir, mode: 0o755},
		"dev":                                  {},
	} {
		n := tr[name]
		if want.mode == 0 {
			continue
		}
		if n == nil || n.kind != want.kind || n.mode != want.mode || n.uid != want.uid || n.gid != want.gid || n.target != want.target {
			t.Errorf("%s is %+v", name, n)
		}
	}
}

func TestAddUserRefusesATakenName(t *testing.T) {
	for _, line := range []string{"ubuntu:x:1001:1001::/home/ubuntu:/bin/sh", "other:x:1000:1000::/home/other:/bin/sh"} {
		tr := bootstrapped(t)
		if err := tr.edit("etc/passwd", appendLine(line)); err != nil {
			t.Fatal(err)
		}
		if err := addUser(tr, time.Unix(0, 0)); err == nil {
			t.Errorf("a second user beside %q", line)
		}
	}
}

func TestTakeKernelRefusals(t *testing.T) {
	for name, change := range map[string]func(tree){
		"no release":   func(tr tree) { tr.remove(kernelDir + "/release") },
		"path":         func(tr tree) { tr.put(kernelDir+"/release", 0o644, "../../etc\n") },
		"no image":     func(tr tree) { tr.remove(kernelDir + "/root/boot") },
		"no modules":   func(tr tree) { tr.remove(kernelDir + "/root/lib") },
		"nothing":      func(tr tree) { tr.remove(kernelDir) },
		"empty kernel": func(tr tree) { tr.put(kernelDir+"/release", 0o644, "\n") },
	} {
		tr := bootstrapped(t)
		change(tr)
		if _, _, err := clean(tr); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
