package build

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"bromure.io/tui/vm/guest"
)

// removed are what the packages' installation leaves behind and what no machine needs. What differs
// between two installations of the same packages is among it: logs, backups, caches.
var removed = []string{
	"etc/*-", "etc/.pwd.lock", "etc/hostname", "etc/fstab", "etc/mtab", "etc/motd",
	"etc/apt/apt.conf.d/99mmdebstrap", "etc/dpkg/dpkg.cfg.d/99mmdebstrap",
	"etc/apt/sources.list", "etc/apt/sources.list.d/*",
	"etc/ssh/ssh_host_*", "etc/modules-load.d/modules.conf",
	"var/lib/dpkg/*-old", "var/lib/dpkg/lock", "var/lib/dpkg/lock-frontend", "var/lib/dpkg/triggers/Lock",
	"var/lib/systemd/random-seed", "var/lib/systemd/credential.secret", "var/lib/systemd/catalog/database",
	"var/lib/dbus/machine-id",
}

// unread are trees that take room and that nobody reads on a machine without man(1). Packages that the user
// installs bring theirs. Licences stay. (dpkg could leave them out, but mmdebstrap then runs a filter
// for each package, which takes 12 s in all.)
var unread = []string{"usr/share/man", "usr/share/info", "usr/share/locale", "usr/share/doc", "usr/share/lintian"}

// emptied are directories that exist on a machine and have nothing in them at first.
var emptied = []string{
	"dev", "proc", "sys", "run", "tmp", "var/tmp", "boot", "media", "mnt", "var/log", "var/lib/apt/lists",
	"var/cache/apt", "var/cache/ldconfig", "var/cache/man",
}

// masked units and generators cost time at each boot and have nothing to do in a workspace. The guest program has mounted the
// disks, set the clock and the network, and serves the terminals.
var masked = []string{
	// There is no console to log in at, and no seat.
	"getty.target", "getty@tty1.service", "getty-static.service", "serial-getty@.service", "console-getty.service",
	"systemd-logind.service", "systemd-user-sessions.service",
	"systemd-ask-password-console.path", "systemd-ask-password-wall.path",
	// Mounted before, or of use to nobody here.
	"systemd-remount-fs.service", "dev-hugepages.mount", "dev-mqueue.mount", "sys-kernel-debug.mount", "sys-kernel-tracing.mount",
	"sys-kernel-config.mount", "sys-fs-fuse-connections.mount", "proc-sys-fs-binfmt_misc.automount",
	"modprobe@configfs.service", "modprobe@dm_mod.service", "modprobe@drm.service", "modprobe@efi_pstore.service",
	"modprobe@fuse.service", "modprobe@loop.service", "kmod-static-nodes.service",
	// The host gives entropy, trims the disks and sets the clock.
	"systemd-random-seed.service", "systemd-boot-random-seed.service", "systemd-timesyncd.service", "fstrim.timer", "e2scrub_reap.service", "e2scrub_all.timer",
	// The journal is volatile; nobody reads utmp.
	"systemd-journal-flush.service", "systemd-update-utmp.service", "systemd-update-utmp-runlevel.service",
	// Packages' installation does these.
	"ldconfig.service", "systemd-hwdb-update.service", "systemd-journal-catalog-update.service", "systemd-sysusers.service",
	"systemd-update-done.service", "systemd-firstboot.service",
	// A machine without a way out cannot fetch; a user updates when it suits.
	"apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "motd-news.timer",
	// Firmware and TPM.
	"systemd-pcrphase.service", "systemd-pcrphase-sysinit.service", "systemd-pcrmachine.service", "systemd-tpm2-setup.service",
	"systemd-tpm2-setup-early.service", "systemd-boot-system-token.service", "systemd-pstore.service",
}

// maskedGenerators look for things that a workspace's machine does not have. Each is a program that
// systemd runs before it does anything else.
var maskedGenerators = []string{
	"systemd-bless-boot-generator", "systemd-cryptsetup-generator", "systemd-getty-generator", "systemd-gpt-auto-generator",
	"systemd-hibernate-resume-generator", "systemd-integritysetup-generator", "systemd-veritysetup-generator",
	"systemd-system-update-generator", "systemd-tpm2-generator",
}

// nodes are device files that the kernel makes only after their driver is loaded, and by which it
// loads it (kmod-static-nodes.service would make them at each boot, at the price of a process).
const nodes = `# Made here because kmod-static-nodes.service is masked. Opening one loads its driver.
c! /dev/fuse 0666 root root - 10:229
d /dev/net 0755 root root -
c! /dev/net/tun 0666 root root - 10:200
c! /dev/loop-control 0660 root disk - 10:237
c! /dev/btrfs-control 0660 root disk - 10:234
c! /dev/vhost-net 0660 root root - 10:238
`

// groups that the user is a member of, where they exist.
var userGroups = []string{"adm", "sudo", "users", "plugdev", "netdev", "video", "render", "kvm"}

// customise turns what the packages' installation made into a workspace's system. It returns the release of the kernel, whose
// file it takes out of the tree.
func (p *plan) customise(t tree) (k kernelFiles, packages []pkg, err error) {
	if k, err = takeKernel(t); err != nil {
		return k, nil, err
	}
	status, err := t.read("var/lib/dpkg/status")
	if err != nil {
		return k, nil, err
	}
	packages = append(parseStatus(status), k.packages...)
	slices.SortFunc(packages, func(a, b pkg) int { return strings.Compare(a.Name, b.Name) })

	for _, pattern := range removed {
		for _, name := range t.glob(pattern) {
			t.remove(name)
		}
	}
	for _, name := range emptied {
		if t[name] != nil {
			t.empty(name)
		}
	}
	for _, name := range t.paths() {
		for _, top := range unread {
			if strings.HasPrefix(name, top+"/") && t[name].kind != dir && path.Base(name) != "copyright" {
				t.remove(name)
			}
		}
	}
	for _, name := range t.paths() { // compiled by whoever ran first
		if strings.HasSuffix(name, "/__pycache__") {
			t.remove(name)
		}
	}
	return k, packages, nil
}

// configure writes the system's settings.
func (p *plan) configure(t tree, k kernelFiles, epoch time.Time) error {
	for _, u := range masked {
		t.symlink("etc/systemd/system/"+u, "/dev/null")
	}
	for _, g := range maskedGenerators {
		t.symlink("etc/systemd/system-generators/"+g, "/dev/null")
	}
	t.symlink("etc/systemd/system/default.target", "/lib/systemd/system/multi-user.target")
	// The bus starts when it is first used, by its socket.
	t.symlink("etc/systemd/system/multi-user.target.wants/dbus.service", "/dev/null")
	t.put("etc/systemd/system.conf.d/workspace.conf", 0o644, "[Manager]\nDefaultTimeoutStopSec=5s\n")
	t.put("etc/systemd/user.conf.d/workspace.conf", 0o644, "[Manager]\nDefaultTimeoutStopSec=5s\n")
	t.put("etc/systemd/journald.conf.d/workspace.conf", 0o644, "[Journal]\nStorage=volatile\nRuntimeMaxUse=16M\nForwardToSyslog=no\n")
	t.put("etc/tmpfiles.d/workspace.conf", 0o644, nodes)
	// Nobody removes /run/nologin, since systemd-user-sessions.service is masked: do not make it.
	t.symlink("etc/tmpfiles.d/systemd-nologin.conf", "/dev/null")
	// File watchers of editors and build tools soon reach the kernel's defaults.
	t.put("etc/sysctl.d/60-workspace.conf", 0o644, "fs.inotify.max_user_watches = 1048576\nfs.inotify.max_user_instances = 1024\n")
	// By these systemd sees that /etc and /var belong to this /usr (systemd-update-done.service(8)).
	stamp := fmt.Sprintf("# This file was made with the image.\nTIMESTAMP_NSEC=%d\n", epoch.UnixNano())
	t.put("etc/.updated", 0o644, stamp)
	t.put("var/.updated", 0o644, stamp)

	t.put("etc/machine-id", 0o444, "") // systemd makes one at the first boot, without its first-boot questions
	t.symlink("var/lib/dbus/machine-id", "/etc/machine-id")
	t.put("etc/fstab", 0o644, "# The guest program mounts / and "+guest.HomeDir+" before systemd starts.\n")
	t.put("etc/hosts", 0o644, "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n")
	t.put("etc/resolv.conf", 0o644, "nameserver "+guest.GatewayAddress+"\n")
	t.put("etc/default/locale", 0o644, "LANG=C.UTF-8\n")
	t.put("etc/sudoers.d/90-"+guest.User, 0o440, guest.User+" ALL=(ALL:ALL) NOPASSWD: ALL\n")

	t.put("etc/apt/sources.list.d/"+p.distro.id+".sources", 0o644, deb822(p.sources, p.imageKeyring(t)))
	var pin strings.Builder
	pin.WriteString("# The booted kernel comes from the host, with its modules in /usr/lib/modules/" + k.release + ".\n" +
		"# A package of the same kernel would take them over, and its removal would remove them.\n")
	for _, q := range k.packages {
		fmt.Fprintf(&pin, "\nPackage: %s\nPin: release *\nPin-Priority: -1\n", q.Name)
	}
	t.put("etc/apt/preferences.d/workspace-kernel", 0o644, pin.String())
	return addUser(t, epoch)
}

// imageKeyring is where the distribution's keys are in the image.
func (p *plan) imageKeyring(t tree) string {
	for _, k := range p.distro.keyrings {
		if t[k[1:]] != nil {
			return k
		}
	}
	return p.keyring
}

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

// packageTime is the newest time that a package gave one of its files: it says how old the content is, and depends on the
// packages only. dpkg's lists of checksums say which files come from packages.
func packageTime(t tree) (time.Time, error) {
	var newest time.Time
	for _, list := range t.glob("var/lib/dpkg/info/*.md5sums") {
		text, err := t.read(list)
		if err != nil {
			return newest, err
		}
		for line := range strings.Lines(text) {
			_, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
			n := t[name]
			if n == nil {
				n = t["usr/"+name] // /lib and the like are links into /usr
			}
			if n != nil && n.kind == file && n.mtime.After(newest) {
				newest = n.mtime
			}
		}
	}
	if newest.IsZero() {
		return newest, fmt.Errorf("no file of a package has a time")
	}
	return newest.UTC().Truncate(time.Second), nil
}

// dirsOf lists the names directly below a directory.
func (t tree) dirsOf(name string) []string {
	seen := map[string]bool{}
	for p := range t {
		if rest, ok := strings.CutPrefix(p, name+"/"); ok {
			first, _, _ := strings.Cut(rest, "/")
			seen[first] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}
