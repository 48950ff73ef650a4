package build

import (
	"fmt"
	"path"
	"slices"
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
	"systemd-user-sessions.service",
	"systemd-ask-password-console.path", "systemd-ask-password-wall.path",
	// Mounted before, or of use to nobody here.
	"systemd-remount-fs.service", "dev-hugepages.mount", "dev-mqueue.mount", "sys-kernel-debug.mount", "sys-kernel-tracing.mount",
	"sys-kernel-config.mount", "sys-fs-fuse-connections.mount",
	"modprobe@configfs.service", "modprobe@dm_mod.service", "modprobe@drm.service", "modprobe@efi_pstore.service",
	"modprobe@fuse.service", "modprobe@loop.service", "kmod-static-nodes.service", "systemd-tmpfiles-setup-dev.service",
	"systemd-tmpfiles-setup-dev-early.service",
	// The host gives entropy, trims the disks and sets the clock.
	"systemd-random-seed.service", "systemd-boot-random-seed.service", "systemd-timesyncd.service", "fstrim.timer", "e2scrub_reap.service", "e2scrub_all.timer",
	// The journal is volatile and does not audit; nobody reads utmp.
	"systemd-journald-audit.socket",
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

// onDemand are services that start when they are first used, over their bus name or socket.
var onDemand = []string{"dbus.service", "systemd-logind.service"}

// nodes are device files that the kernel makes only after their driver is loaded, and by which it
// loads it; kmod-static-nodes.service would make them at each boot, at the price of a process.
const nodes = `# Made here because kmod-static-nodes.service is masked. Opening one loads its driver.
c! /dev/fuse 0666 root root - 10:229
d /dev/net 0755 root root -
c! /dev/net/tun 0666 root root - 10:200
c! /dev/loop-control 0660 root disk - 10:237
c! /dev/btrfs-control 0660 root disk - 10:234
# There is no session manager that makes it at login.
d! /run/user 0755 root root -
d! /run/user/1000 0700 ubuntu ubuntu -
`

// setup makes one process of two: tmpfiles.d's lines for /dev and the others.
const setup = `[Service]
ExecStart=
ExecStart=systemd-tmpfiles --create --remove --boot
`

// userManager makes a user's own systemd work without the PAM module that tells it where its sockets go.
const userManager = `[Service]
Environment=XDG_RUNTIME_DIR=/run/user/%i
`

// linger starts the session manager, which is started on demand otherwise, where it has to start a user's services at boot.
// A dependency would be followed although the condition does not hold.
const linger = `[Unit]
Description=Start the services of users that linger
ConditionDirectoryNotEmpty=/var/lib/systemd/linger

[Service]
Type=oneshot
ExecStart=systemctl start --no-block systemd-logind.service

[Install]
WantedBy=multi-user.target
`

// clean takes the kernel out of the tree and the packages' list, and removes what does not belong into an image.
func clean(t tree) (k kernelFiles, packages []pkg, err error) {
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
		n := t[name]
		if n == nil {
			continue
		}
		for _, top := range unread {
			if strings.HasPrefix(name, top+"/") && n.kind != dir && path.Base(name) != "copyright" {
				t.remove(name)
			}
		}
		if strings.HasSuffix(name, "/__pycache__") { // compiled by whoever ran first
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
	for _, u := range onDemand {
		t.symlink("etc/systemd/system/multi-user.target.wants/"+u, "/dev/null")
	}
	t.put("etc/systemd/system/workspace-linger.service", 0o644, linger)
	t.symlink("etc/systemd/system/multi-user.target.wants/workspace-linger.service", "../workspace-linger.service")
	t.put("etc/systemd/system/user@.service.d/workspace.conf", 0o644, userManager)
	t.put("etc/systemd/system/systemd-tmpfiles-setup.service.d/workspace.conf", 0o644, setup)
	for _, u := range []string{"systemd-tmpfiles-setup.service", "systemd-sysctl.service"} {
		if s := noCredentials(t, u); s != "" {
			t.put("etc/systemd/system/"+u+".d/no-credentials.conf", 0o644, s)
		}
	}
	t.put("etc/systemd/system.conf.d/workspace.conf", 0o644, "[Manager]\nDefaultTimeoutStopSec=5s\n")
	t.put("etc/systemd/user.conf.d/workspace.conf", 0o644, "[Manager]\nDefaultTimeoutStopSec=5s\n")
	t.put("etc/systemd/journald.conf.d/workspace.conf", 0o644, "[Journal]\nStorage=volatile\nRuntimeMaxUse=16M\nForwardToSyslog=no\nAudit=no\n")
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
	// The kernel runs without IPv6: a server that asks where "localhost" is must not be told ::1.
	t.put("etc/hosts", 0o644, "127.0.0.1\tlocalhost\n")
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

// noCredentials undoes what a unit imports of the machine's credentials (systemd.exec(5)). There are none, and
// to prepare for them costs systemd a process and a mount for each unit.
func noCredentials(t tree, unit string) string {
	text, err := t.read("usr/lib/systemd/system/" + unit)
	if err != nil {
		return ""
	}
	for _, key := range []string{"LoadCredential=", "ImportCredential="} { // the second since systemd 254
		if strings.Contains(text, "\n"+key) {
			return "[Service]\n" + key + "\n"
		}
	}
	return ""
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
