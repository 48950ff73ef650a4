package e2e

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

// TestGuest is everything about one running guest that needs no other one.
func TestGuest(t *testing.T) {
	i := newInstall(t)
	i.ok("workspaces", "create", "--name", "w", "--memory", "1")
	i.ok("vm", "run", "-d", "w")
	rate := guestClock(i)
	t.Run("user", func(t *testing.T) { guestUser(t, i) })
	t.Run("exec", func(t *testing.T) { guestExec(t, i) })
	t.Run("console", func(t *testing.T) { guestConsole(t, i) })
	t.Run("disks", func(t *testing.T) { guestDisks(t, i) })
	t.Run("packages", func(t *testing.T) { guestPackages(t, i) })
	t.Run("reports", func(t *testing.T) { guestReports(t, i) })
	// A kernel that has measured its clock wrongly on a busy host runs several times too fast or too slow.
	if r := rate(); r < 0.8 || r > 1.25 {
		t.Errorf("the guest's clock runs at %.2f times the host's", r)
	}
}

// guestClock begins to compare the guest's clock with the host's; what it returns says how fast the guest's was since.
func guestClock(i *install) (rate func() float64) {
	read := func() (guest float64, host time.Time) {
		before := time.Now()
		up, _ := strconv.ParseFloat(i.sh("w", "cut -d ' ' -f 1 /proc/uptime"), 64)
		return up, before.Add(time.Since(before) / 2)
	}
	guest, host := read()
	return func() float64 {
		g, h := read()
		return (g - guest) / h.Sub(host).Seconds()
	}
}

func guestUser(t *testing.T, i *install) {
	for script, want := range map[string]string{
		"id -u; id -un; pwd":                   "1000\nubuntu\n/home/ubuntu",
		"id -nG | tr ' ' '\\n' | grep -x sudo": "sudo",
		"echo $HOME $USER $LOGNAME $SHELL":     "/home/ubuntu ubuntu ubuntu /bin/bash",
		"sudo -n id -u":                        "0",
		"printf '\\303\\251' | wc -m":          "1", // the locale is UTF-8
		"stat -c %a /tmp":                      "1777",
		"findmnt -no FSTYPE /home/ubuntu":      "ext4",
		"ls -A /home/ubuntu/.bashrc":           "/home/ubuntu/.bashrc",
		"cat /proc/sys/net/ipv6/conf/all/disable_ipv6 2>/dev/null || echo 1": "1",
		"test ! -e /bromure && echo none":                                    "none", // the boot archive is gone
	} {
		if got := i.sh("w", script); got != want {
			t.Errorf("%s: %q, want %q", script, got, want)
		}
	}
	host, guest := time.Now(), int64(0)
	guest, _ = strconv.ParseInt(i.sh("w", "date +%s"), 10, 64)
	if d := guest - host.Unix(); d < -2 || d > 30 {
		t.Errorf("the guest's clock is %d s off", d)
	}
}

func guestExec(t *testing.T, i *install) {
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{"true"}, 0}, {[]string{"sh", "-c", "exit 42"}, 42},
		{[]string{"no-such-program"}, 127}, {[]string{"/etc/passwd"}, 126},
		{[]string{"sh", "-c", "kill -TERM $$"}, 143},
	} {
		i.fails(c.code, append([]string{"vm", "exec", "w", "--"}, c.args...)...)
	}
	// Arguments arrive as they are: no shell takes them apart.
	if got := i.ok("vm", "exec", "w", "--", "printf", "%s|", "a b", "$HOME", "'q'", "*"); got != "a b|$HOME|'q'|*|" {
		t.Errorf("arguments: %q", got)
	}
	// Streams are apart, binary, and large.
	data := bytes.Repeat([]byte("0123456789abcdef\x00\xff\r\n"), 200_000)
	r := i.run(data, "vm", "exec", "w", "--", "sh", "-c", "tee /dev/stderr")
	if r.code != 0 || r.stdout != string(data) || r.stderr != string(data) {
		t.Errorf("4 MB through both streams: exit %d, %d and %d bytes", r.code, len(r.stdout), len(r.stderr))
	}
	if r := i.run(nil, "vm", "exec", "-t", "w", "--", "true"); r.code == 0 || strings.Count(strings.TrimSpace(r.stderr), "\n") > 1 {
		t.Errorf("-t without a terminal: %+v", r)
	}
	if got := i.ok("vm", "exec", "-e", "A=b c", "-w", "/etc", "w", "--", "sh", "-c", "echo $A; pwd"); got != "b c\n/etc\n" {
		t.Errorf("environment and directory: %q", got)
	}
	if got := i.ok("vm", "exec", "--root", "w", "--", "id", "-u"); got != "0\n" {
		t.Errorf("as root: %q", got)
	}
}

// guestConsole attaches with a real terminal, resizes it, detaches, and finds everything as it was.
func guestConsole(t *testing.T, i *install) {
	attach := func(cols, rows uint16) *terminal {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		t.Cleanup(cancel)
		cmd := i.command(ctx, "vm", "attach", "w")
		f, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: cols, Rows: rows})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return newTerminal(t, f, cmd.Wait)
	}
	term := attach(91, 31)
	term.send("stty size; echo mark-$((40+2))\r")
	term.expect("31 91")
	term.expect("mark-42")
	if err := pty.Setsize(term.f, &pty.Winsize{Cols: 123, Rows: 45}); err != nil {
		t.Fatal(err)
	}
	// The size arrives some time after the signal: ask until it has.
	term.until("stty size\r", "45 123")
	term.send("sh -c 'echo go-$((3+4)); exec sleep 1000'\r")
	term.expect("go-7")
	term.send("\x03") // ends sleep
	term.until("echo after-$((1+1))\r", "after-2")
	term.send("cd /tmp; X=held\r")
	term.send("\x10\x11") // ctrl-p ctrl-q
	if err := term.wait(); err != nil {
		t.Errorf("detach: %v", err)
	}
	term = attach(80, 24)
	term.send("echo $X-in-$PWD\r")
	term.expect("held-in-/tmp")
	term.send("exit\r")
	_ = term.wait()
}

func guestDisks(t *testing.T, i *install) {
	w := i.describe("w")
	home := filepath.Join(w.Dir, "home.img")
	if fi, err := os.Stat(home); err != nil || fi.Size() != 64<<30 {
		t.Errorf("home.img: %v, %v", fi, err)
	}
	if base, err := filepath.Glob(filepath.Join(i.root, "images", "*", "base.img")); err != nil || len(base) != 1 {
		t.Fatalf("base images: %v %v", base, err)
	} else if fi, _ := os.Stat(base[0]); fi.Mode().Perm() != 0o444 {
		t.Errorf("base.img has mode %v", fi.Mode())
	}
	// Freed blocks return to the host.
	before := i.describe("w").HomeOwn
	i.sh("w", "head -c 200M /dev/urandom > ~/big; sync")
	full := i.describe("w").HomeOwn
	i.sh("w", "rm ~/big; sync; sudo fstrim /home/ubuntu")
	after := i.describe("w").HomeOwn
	if full-before < 150<<20 || after-before > 40<<20 {
		t.Errorf("home.img holds %d MiB, with 200 MiB more in it %d, after they were deleted %d", before>>20, full>>20, after>>20)
	}
	if got := i.sh("w", "for f in /sys/block/vd*/serial; do echo $(cat $f); done"); got != "bromure-disk\nbromure-home" {
		t.Errorf("serials: %q", got)
	}
}

// guestPackages installs a package from a file, as there is no network, and removes what apt would remove.
func guestPackages(t *testing.T, i *install) {
	deb := emptyPackage(t)
	r := i.run(deb, "vm", "exec", "w", "--", "sh", "-ec", "cat > /tmp/p.deb; sudo dpkg -i /tmp/p.deb >&2; cat /usr/share/bromure-e2e/hello")
	if r.code != 0 || r.stdout != "hello\n" {
		t.Errorf("dpkg -i: %+v", r)
	}
	i.sh("w", "sudo apt-get -y -qq autoremove --purge >/dev/null; sudo apt-get check >/dev/null 2>&1")
	i.sh("w", "sudo apt-get -y -qq purge 'linux-image*' 'linux-modules*' >/dev/null 2>&1 || true")
	if got := i.sh("w", "test -e /lib/modules/$(uname -r)/modules.dep && echo there"); got != "there" {
		t.Error("apt removed the modules of the running kernel")
	}
	if got := i.sh("w", "sudo modprobe overlay && grep -c overlay /proc/filesystems"); got != "1" {
		t.Errorf("overlay: %q", got)
	}
}

func guestReports(t *testing.T, i *install) {
	i.sh("w", "setsid -f perl -MIO::Socket::INET -e 'my $s=IO::Socket::INET->new(LocalAddr=>\"127.0.0.1\",LocalPort=>4711,Listen=>5,ReuseAddr=>1) or die; sleep 1000' >/dev/null 2>&1; for n in $(seq 200); do grep -q ':1267 ' /proc/net/tcp && break; sleep 0.05; done")
	if out := i.ok("vm", "ports", "w"); !strings.Contains(out, "4711") || !strings.Contains(out, "perl") {
		t.Errorf("vm ports: %s", out)
	}
	for _, kind := range []string{"serial", "guest"} {
		if out := i.ok("vm", "logs", "--kind", kind, "w"); !strings.Contains(out, "ssh") {
			t.Errorf("the %s log: %q", kind, out)
		}
	}
	deadline := time.Now().Add(patience)
	for i.describe("w").Stats == nil {
		if time.Now().After(deadline) {
			t.Fatal("the guest reports no load")
		}
		time.Sleep(100 * time.Millisecond)
	}
	if s := i.describe("w").Stats; s.CPUs != 2 || s.MemTotal < 700<<20 || s.MemTotal > 1<<30 || s.HomeTotal == 0 {
		t.Errorf("stats %+v", s)
	}
}

// emptyPackage is a Debian package with one file in it, deb(5): an ar archive of two tars.
func emptyPackage(t *testing.T) []byte {
	t.Helper()
	tarOf := func(files map[string]string) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for _, name := range slices.Sorted(maps.Keys(files)) { // directories before what is in them
			body := files[name]
			mode := int64(0o644)
			if strings.HasSuffix(name, "/") {
				mode = 0o755
			}
			if err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(body)), ModTime: time.Unix(1e9, 0), Format: tar.FormatGNU}); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Write([]byte(body)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	control := "Package: bromure-e2e\nVersion: 1\nArchitecture: all\nMaintainer: Nobody <nobody@example.com>\nDescription: a test\n"
	var deb bytes.Buffer
	deb.WriteString("!<arch>\n")
	for _, m := range []struct {
		name string
		data []byte
	}{
		{"debian-binary", []byte("2.0\n")},
		{"control.tar", tarOf(map[string]string{"./control": control})},
		{"data.tar", tarOf(map[string]string{"./usr/share/bromure-e2e/": "", "./usr/share/bromure-e2e/hello": "hello\n"})},
	} {
		fmt.Fprintf(&deb, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", m.name, 1000000000, 0, 0, "100644", len(m.data))
		deb.Write(m.data)
		if len(m.data)%2 == 1 {
			deb.WriteByte('\n')
		}
	}
	return deb.Bytes()
}
