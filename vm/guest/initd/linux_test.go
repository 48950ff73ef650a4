//go:build linux

package initd

import (
	"bytes"
	"encoding/hex"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestListSerials(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/vda/serial", "bromure-disk")
	write(t, dir+"/vdb/serial", "bromure-home\n")
	write(t, dir+"/vdc/size", "5\n")
	write(t, dir+"/sda/serial", "no virtio disk")
	got, err := listSerials(dir)
	if want := []disk{{"vda", "bromure-disk"}, {"vdb", "bromure-home"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestFindCard(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/lo/address", "00:00:00:00:00:00\n")
	write(t, dir+"/lo/ifindex", "1\n")
	write(t, dir+"/eth0/address", "02:00:00:AA:BB:CC\n")
	write(t, dir+"/eth0/ifindex", "7\n")
	write(t, dir+"/odd/address", "what?\n")
	mac, _ := net.ParseMAC("02:00:00:aa:bb:cc")
	if index, err := findCard(dir, mac); err != nil || index != 7 {
		t.Errorf("%d, %v", index, err)
	}
	other, _ := net.ParseMAC("02:00:00:aa:bb:cd")
	if index, err := findCard(dir, other); err != nil || index != 0 {
		t.Errorf("another card: %d, %v", index, err)
	}
	write(t, dir+"/eth0/ifindex", "-7\n")
	if index, err := findCard(dir, mac); err == nil {
		t.Errorf("index %d", index)
	}
}

// TestNetlinkMessages compares with what iproute2 sends for the same, as strace shows it.
func TestNetlinkMessages(t *testing.T) {
	for _, c := range []struct {
		name, want string
		msg        []byte
	}{
		{"link up", "20000000 1000 0500 01000000 00000000" + // length, RTM_NEWLINK, REQUEST|ACK, sequence, port
			"00 00 0000 01000000 01000000 01000000", linkUp(1, 1, 0)}, // family, -, type, index, flags IFF_UP, change IFF_UP
		{"link up with an MTU", "28000000 1000 0500 02000000 00000000 00 00 0000 02000000 01000000 01000000" +
			"0800 0400 f0ff0000", linkUp(2, 2, 65520)}, // IFLA_MTU
		{"address", "28000000 1400 0505 03000000 00000000" + // RTM_NEWADDR, REQUEST|ACK|REPLACE|CREATE
			"02 18 00 00 02000000" + // AF_INET, /24, flags, scope, index
			"0800 0200 c0a87f02 0800 0100 c0a87f02", addAddress(3, 2, netip.MustParsePrefix("192.168.127.2/24"))}, // IFA_LOCAL, IFA_ADDRESS
		{"route", "2c000000 1800 0505 04000000 00000000" + // RTM_NEWROUTE
			"02 00 00 00 fe 03 00 01 00000000" + // AF_INET, dst 0, src 0, tos, main table, boot, universe, unicast, flags
			"0800 0500 c0a87f01 0800 0400 02000000", addDefaultRoute(4, 2, netip.MustParseAddr("192.168.127.1"))}, // RTA_GATEWAY, RTA_OIF
	} {
		want, err := hex.DecodeString(strings.ReplaceAll(c.want, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(c.msg, want) {
			t.Errorf("%s:\n%x, want\n%x", c.name, c.msg, want)
		}
	}
}

func TestAnswer(t *testing.T) {
	ack := func(kind uint16, seq uint32, errno int32) []byte {
		b := make([]byte, unix.NLMSG_HDRLEN+4)
		order.PutUint16(b[4:], kind)
		order.PutUint32(b[8:], seq)
		order.PutUint32(b[16:], uint32(errno))
		return b
	}
	if err := answer(ack(unix.NLMSG_ERROR, 3, 0), 3); err != nil {
		t.Error(err)
	}
	if err := answer(ack(unix.NLMSG_ERROR, 3, -int32(unix.EPERM)), 3); err != unix.EPERM {
		t.Error(err)
	}
	for _, b := range [][]byte{nil, ack(unix.NLMSG_DONE, 3, 0), ack(unix.NLMSG_ERROR, 4, 0), ack(unix.NLMSG_ERROR, 3, 0)[:18]} {
		if answer(b, 3) == nil {
			t.Errorf("%x is no acknowledgement", b)
		}
	}
}

func TestReadHead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "disk")
	for _, c := range []struct {
		name string
		data []byte
		want content
		size int
	}{
		{"ext4", append(head(stateValid, compatJournal), make([]byte, 2*headSize)...), ext4, 4096},
		{"blank", make([]byte, 2*headSize), blank, headSize},
		{"data behind zeroes", append(make([]byte, headSize-1), make([]byte, headSize)...), blank, headSize},
		{"small", make([]byte, 5000), foreign, 5000},
	} {
		if err := os.WriteFile(path, c.data, 0o600); err != nil {
			t.Fatal(err)
		}
		b, err := readHead(path)
		if err != nil || len(b) != c.size {
			t.Errorf("%s: %d bytes, %v", c.name, len(b), err)
		}
		if got, _ := classify(b); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestRewrite(t *testing.T) {
	add := func(old string) (string, bool) { return old + "x\n", !strings.HasSuffix(old, "x\n") }
	dir := t.TempDir()

	file := dir + "/file"
	write(t, file, "a\n")
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := rewrite(file, add); err != nil || read(t, file) != "a\nx\n" {
			t.Errorf("%q, %v", read(t, file), err)
		}
	}
	if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}

	if err := rewrite(dir+"/new", add); err != nil || read(t, dir+"/new") != "x\n" {
		t.Error(err)
	}

	// A link keeps leading where it led; one that leads nowhere becomes a file.
	if err := os.Symlink("file", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	write(t, file, "b\n")
	if err := rewrite(dir+"/link", add); err != nil || read(t, file) != "b\nx\n" {
		t.Errorf("%q, %v", read(t, file), err)
	}
	if err := os.Symlink("nowhere/at/all", dir+"/dangling"); err != nil {
		t.Fatal(err)
	}
	if err := rewrite(dir+"/dangling", add); err != nil || read(t, dir+"/dangling") != "x\n" {
		t.Error(err)
	}

	// What is no file, or far too large, is somebody else's.
	if err := unix.Mkfifo(dir+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	if err := rewrite(dir+"/fifo", add); err == nil {
		t.Error("a FIFO was replaced")
	}
	write(t, dir+"/large", strings.Repeat("y", maxEtcFile+1))
	if err := rewrite(dir+"/large", add); err == nil {
		t.Error("a large file was replaced")
	}
	left, err := filepath.Glob(dir + "/*.bromure-new")
	if err != nil || len(left) != 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

func TestSetZone(t *testing.T) {
	if _, err := os.Stat(zoneDir + "/UTC"); err != nil {
		t.Skipf("this system has no time zones: %v", err)
	}
	dir := t.TempDir()
	write(t, dir+"/timezone", "Old/Zone\n")
	for range 2 {
		if err := setZone(dir+"/localtime", dir+"/timezone", "UTC"); err != nil {
			t.Fatal(err)
		}
	}
	if to, err := os.Readlink(dir + "/localtime"); err != nil || to != zoneDir+"/UTC" || read(t, dir+"/timezone") != "UTC\n" {
		t.Errorf("%q, %v, %q", to, err, read(t, dir+"/timezone"))
	}
	for _, bad := range []string{"No/Such_Zone", "../../etc/passwd", ""} {
		if err := setZone(dir+"/localtime", dir+"/timezone", bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	if to, err := os.Readlink(dir + "/localtime"); err != nil || to != zoneDir+"/UTC" {
		t.Errorf("%q, %v after refusals", to, err)
	}
}

func TestEmptyRefusesADisk(t *testing.T) {
	dir, err := os.MkdirTemp(".", "empty") // beside the source: normally no file system in memory
	if err != nil {
		t.Skip(err)
	}
	defer os.RemoveAll(dir)
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil || int64(st.Type) == tmpfs || int64(st.Type) == ramfs {
		t.Skipf("the sources are on a file system in memory (%v)", err)
	}
	write(t, dir+"/precious", "data")
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := empty(root); err == nil || read(t, dir+"/precious") != "data" {
		t.Errorf("a directory on a disk was emptied: %v", err)
	}
}

func TestRun(t *testing.T) {
	out, status, err := run("", "/bin/sh", "-c", "echo out; echo err >&2; exit 3")
	if err != nil || status != 3 || out != "out\nerr\n" {
		t.Errorf("%q, %d, %v", out, status, err)
	}
	out, _, err = run("", "/bin/sh", "-c", "head -c 100000 /dev/zero")
	if err != nil || len(out) != maxOutput {
		t.Errorf("%d bytes, %v", len(out), err)
	}
	if _, _, err := run("", "/no/such/program"); err == nil {
		t.Error("a program that is not there ran")
	}
	if _, status, err := run("", "/bin/sh", "-c", "kill -9 $$"); err != nil || checked(status) == nil {
		t.Errorf("killed: %d, %v", status, err)
	}
}

func TestOpenModules(t *testing.T) {
	dir := t.TempDir()
	if m, err := openModules(dir, "order"); err != nil || m != nil {
		t.Errorf("without a list: %v, %v", m, err)
	}
	write(t, dir+"/order", "a.ko\nsub/b.ko\n")
	write(t, dir+"/a.ko", "a")
	if m, err := openModules(dir, "order"); err == nil {
		t.Errorf("one is missing: %v", m)
	}
	write(t, dir+"/sub/b.ko", "b")
	m, err := openModules(dir, "order")
	if err != nil || len(m) != 2 || filepath.Base(m[1].Name()) != "b.ko" {
		t.Fatalf("%v, %v", m, err)
	}
	if err := m.load(); err == nil || !strings.Contains(err.Error(), "a.ko") {
		t.Errorf("text was loaded as a module: %v", err)
	}
	if _, err := m[1].Stat(); err == nil {
		t.Error("a file was left open")
	}
	write(t, dir+"/order", "../a.ko\n")
	if m, err := openModules(dir, "order"); err == nil {
		t.Errorf("a path out of the directory was opened: %v", m)
	}
}

func TestDisableIPv6(t *testing.T) {
	dir := t.TempDir()
	if err := disableIPv6(dir); err != nil {
		t.Errorf("a kernel without IPv6: %v", err)
	}
	write(t, dir+"/all/disable_ipv6", "0")
	write(t, dir+"/default/disable_ipv6", "0")
	if err := disableIPv6(dir); err != nil || read(t, dir+"/all/disable_ipv6")+read(t, dir+"/default/disable_ipv6") != "11" {
		t.Error(err)
	}
}

// TestWaiter: the first look already finds what is there, and nothing that fails is waited for.
func TestWaiter(t *testing.T) {
	w, err := newWaiter()
	if err != nil {
		t.Skipf("no netlink here: %v", err)
	}
	defer w.close()
	if ok, err := w.until("net", func() (bool, error) { return true, nil }); !ok || err != nil {
		t.Error(ok, err)
	}
	if ok, err := w.until("net", func() (bool, error) { return false, os.ErrInvalid }); ok || err != os.ErrInvalid {
		t.Error(ok, err)
	}
}

func TestConcerns(t *testing.T) {
	const msg = "add@/devices/pci0000:00/0000:00:02.0/virtio0/net/eth0\x00ACTION=add\x00DEVPATH=/devices/x\x00SUBSYSTEM=net\x00INTERFACE=eth0\x00IFINDEX=2\x00SEQNUM=900\x00"
	for subsystem, want := range map[string]bool{"net": true, "block": false, "ne": false, "": false} {
		if concerns([]byte(msg), subsystem) != want {
			t.Errorf("%q: not %v", subsystem, want)
		}
	}
	if concerns(nil, "net") {
		t.Error("an empty message")
	}
}
