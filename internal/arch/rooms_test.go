package arch

import (
	"slices"
	"strings"
	"testing"
)

// room is a package, the packages of ours that it may import, and the reason. Imports run strictly
// downward: the rows are in that order, and may imports from rows above its own only (tested).
type room struct {
	path string
	may  []string // patterns, see within
	why  string
}

// leaves know nothing of ours, so that anything may use them.
var leaves = []string{
	"internal/verb", "internal/layout", "internal/atomicfile", "internal/needle", "internal/problem",
	"internal/printable", "internal/cpio", "internal/ring", "internal/failpoint", "vm/guest",
}

// words are what a front, a use case and the control socket may speak of.
var words = []string{"images", "secrets", "vm", "proxy"}

func plus(lists ...[]string) []string { return slices.Concat(lists...) }

var rooms = []room{
	// 1. Leaves.
	{"internal/verb", nil, "the catalogue of what a user can do"},
	{"internal/layout", nil, "names every path and opens no file"},
	{"internal/failpoint", nil, "where a test can end the process; whatever changes the disk marks its steps with it"},
	{"internal/atomicfile", []string{"internal/failpoint"}, "writes files whole or not at all"},
	{"internal/needle", nil, "encodings and searching; knows no secret"},
	{"internal/problem", nil, "errors with a kind and a hint"},
	{"internal/printable", nil, "hostile text made safe to show"},
	{"internal/cpio", nil, "a file format"},
	{"internal/ring", []string{"internal/layout", "internal/atomicfile"}, "log files of bounded size"},
	{"internal/arch", nil, "these tests"},
	{"vm/guest", nil, "words that the guest program shares: whatever it imports is in the guest"},

	// 2. Words of the domains that stand alone.
	{"secrets", leaves, "words"},
	{"images", leaves, "words"},
	// 3. Words that need those.
	{"vm", plus([]string{"images"}, leaves), "a workspace is made from an image"},
	{"proxy", plus([]string{"secrets"}, leaves), "a connection may get a secret put in"},

	// 4. Machinery: the words and machinery of its own domain, and leaves; never another domain's machinery.
	{"images/store", plus([]string{"images"}, leaves), "finds and checks the images on disk"},
	{"images/build", plus([]string{"images", "images/store"}, leaves), "makes an image"},
	{"images/fetch", plus([]string{"images", "images/store"}, leaves), "downloads an image and checks its signature"},

	{"vm/guestbin", leaves, "the bytes of the guest program"},
	{"vm/initramfs", leaves, "one boot's archive"},
	{"vm/disk", plus([]string{"vm", "images"}, leaves), "clones disks, makes homes"},
	{"vm/disk/disktest", nil, "real file systems for tests and measurements"},
	{"vm/store", plus([]string{"vm", "images"}, leaves, []string{"vm/disk"}), "workspaces on disk; an inventory tells a disk's own bytes from shared ones"},
	{"vm/netstack/netstacktest", leaves, "a guest in memory, for tests of segments"},
	{"vm/netstack", plus([]string{"vm"}, leaves), "one private segment"},
	{"vm/link", plus([]string{"vm"}, leaves), "the host's end of the channel to the guest"},
	{"vm/console", nil, "what a guest prints, in bounds"},
	{"vm/vmtest/echo", leaves, "the guest of the contract: it answers raw frames"},
	{"vm/vmtest", plus([]string{"vm", "images", "vm/console", "vm/vmtest/echo"}, leaves), "the contract of a backend, and a fake one"},
	{"vm/vmtest/testguest", plus([]string{"vm/vmtest/echo"}, leaves), "a guest program for tests of backends"},
	{"vm/qemu/qmp", nil, "QEMU's monitor protocol"},
	{"vm/qemu", plus([]string{"vm", "images", "vm/console", "vm/initramfs", "vm/guestbin", "vm/qemu/qmp"}, leaves), "a backend; it boots a probe of its own"},
	{"vm/vz", plus([]string{"vm", "images", "vm/console", "vm/initramfs", "vm/guestbin"}, leaves), "a backend; the only cgo"},

	{"secrets/vault", plus([]string{"secrets"}, leaves), "secrets at rest"},
	{"secrets/keychain", plus([]string{"secrets"}, leaves), "the master key"},
	{"secrets/sshagent", plus([]string{"secrets"}, leaves), "signs, and gives out no key"},
	{"secrets/envfile", plus([]string{"secrets"}, leaves), "reads .env files"},

	{"proxy/ca", plus([]string{"proxy"}, leaves), "gives out certificate bytes only"},
	{"proxy/sigv4", plus([]string{"proxy", "secrets"}, leaves), "signs again with the real key"},
	{"proxy/tripwire", plus([]string{"proxy", "secrets"}, leaves), "finds placeholders on the wire"},
	{"proxy/tracelog", plus([]string{"proxy"}, leaves), "what travelled, from the guest's side of the swap"},
	{"proxy/mitm", plus([]string{"proxy", "secrets", "proxy/ca", "proxy/sigv4", "proxy/tripwire", "proxy/tracelog"}, leaves), "the proxy itself"},

	// The guest program: its own rooms only, so that nothing which ever held a secret can be linked into it.
	{"vm/guest/sysinfo", []string{"vm/guest"}, "readings of the guest"},
	{"vm/guest/login", []string{"vm/guest"}, "accounts and login environments"},
	{"vm/guest/process", []string{"vm/guest", "vm/guest/login"}, "programs that sessions start, with their terminals"},
	{"vm/guest/console", []string{"vm/guest", "vm/guest/login", "vm/guest/process"}, "terminal sessions that outlive a connection"},
	{"vm/guest/sshd", []string{"vm/guest", "vm/guest/login", "vm/guest/process", "vm/guest/console"}, "the SSH server in the guest"},
	{"vm/guest/report", []string{"vm/guest"}, "what the guest program says on the console"},
	{"vm/guest/initd", []string{"vm/guest", "vm/guest/sysinfo", "vm/guest/report"}, "PID 1"},
	{"vm/guest/agent", []string{"vm/guest", "vm/guest/sysinfo", "vm/guest/sshd", "vm/guest/report"}, "the part that stays when the distribution's init has taken over"},
	{"cmd/bromure-guest", []string{"vm/guest/..."}, "fits them together"},

	// 5. The control socket speaks in words.
	{"internal/control/wire", plus(words, leaves), "what goes over the control socket"},
	{"internal/control", plus([]string{"internal/control/wire"}, words, leaves), "server and client"},
	{"internal/control/controltest", plus([]string{"internal/control", "internal/control/wire"}, words, leaves), "a daemon in memory for tests of fronts, and the contract that it shares with the real one"},

	// 6. Use cases declare the interfaces that they consume.
	{"internal/removal", plus(words, leaves), "plans, journal, trash"},
	{"internal/boot", plus(words, leaves), "the steps of a start, with their undo"},
	{"internal/guestfiles", plus(words, leaves), "everything that a guest gets"},
	{"internal/incident", plus(words, leaves), "mark, revoke, pause, tell"},
	{"internal/ask", plus(words, leaves), "questions and grants"},
	{"internal/snapshot", plus([]string{"internal/control/wire"}, words, leaves), "the state that fronts see, in the form in which it travels"},

	// 7. The daemon fits machinery into use cases.
	{"internal/daemon", plus([]string{
		"internal/control", "internal/control/wire",
		"internal/removal", "internal/boot", "internal/guestfiles", "internal/incident", "internal/ask", "internal/snapshot",
		"images/store", "images/build", "images/fetch",
		"vm/guestbin", "vm/initramfs", "vm/disk", "vm/store", "vm/netstack", "vm/link", "vm/qemu", "vm/vz",
		"secrets/vault", "secrets/keychain", "secrets/sshagent", "secrets/envfile",
		"proxy/ca", "proxy/sigv4", "proxy/tripwire", "proxy/tracelog", "proxy/mitm",
	}, words, leaves), "the only place where machinery of several domains meets"},

	{"internal/daemon/daemontest", plus([]string{
		"internal/daemon", "internal/control", "internal/control/wire", "vm/store",
		"vm/vmtest", "vm/netstack/netstacktest", "vm/link", "vm/guest/sshd",
	}, words, leaves), "the real daemon with fake machines, for tests, and the harness that ends it at every step"},

	// 8. Fronts.
	{"ui/kit", plus([]string{"internal/control", "internal/control/wire"}, words, leaves), "what all screens are made of"},
	{"ui/dialogs", plus([]string{"ui/kit", "internal/control", "internal/control/wire"}, words, leaves), "questions that name what goes"},
	{"ui/screens", plus([]string{"ui/kit", "ui/dialogs", "internal/control", "internal/control/wire"}, words, leaves), "pure functions of the snapshot"},
	{"ui/console", plus([]string{"ui/kit", "internal/control", "internal/control/wire"}, words, leaves), "the pty panel"},
	{"ui", plus([]string{"ui/kit", "ui/dialogs", "ui/screens", "ui/console", "internal/control", "internal/control/wire"}, words, leaves), "routing and commands"},
	{"internal/cli", plus([]string{"internal/control", "internal/control/wire"}, words, leaves), "the command tree"},
	{"internal/cli/program", plus([]string{"internal/cli", "internal/daemon"}, words, leaves), "the command tree with the real daemon; one hidden command is the daemon"},
	{"cmd/bromure-cli", []string{"internal/cli/program"}, "one name of the command tree"},
	{"cmd/bromure-tui", []string{"internal/cli/program", "ui"}, "the other one"},

	// Beside the product.
	{"tools/testsum", nil, "sums up test runs"},
	{"tools/licenses", nil, "collects the licences of what is linked in"},
	{"tools/bench", plus([]string{"vm/store", "vm/disk", "vm/disk/disktest", "vm/netstack", "vm/qemu"}, words, leaves), "measures machinery as well as programs"},
	{"tools/bench/benchguest", []string{"vm/guest"}, "the init of measured machines"},
}

func TestImportsRunDownward(t *testing.T) {
	at := map[string]room{}
	for _, r := range rooms {
		at[r.path] = r
	}
	for path, p := range load(t) {
		if len(p.files) == 0 {
			continue // tests only: e2e, scripts
		}
		r, ok := at[path]
		if !ok {
			t.Errorf("%s has no row in rooms_test.go: add one, with what it may import and why", path)
			continue
		}
		for _, i := range p.ours() {
			if !within(i, r.may) {
				t.Errorf("%s (%s) imports %s in %q", path, r.why, i, p.imports[module+"/"+i])
			}
		}
	}
}

// TestRoomsAreOrdered keeps the table itself honest: a row may name only packages above it.
func TestRoomsAreOrdered(t *testing.T) {
	above := map[string]bool{}
	for _, r := range rooms {
		if r.why == "" {
			t.Errorf("%s has no reason", r.path)
		}
		if above[r.path] {
			t.Errorf("%s has two rows", r.path)
		}
		for _, m := range r.may {
			if base, tree := strings.CutSuffix(m, "/..."); !above[m] && !(tree && above[base]) {
				t.Errorf("%s may import %s, which is not above it", r.path, m)
			}
		}
		above[r.path] = true
	}
}

// TestGuestProgramIsAlone: everything that the guest program is built from, however indirectly.
func TestGuestProgramIsAlone(t *testing.T) {
	all := load(t)
	if all["cmd/bromure-guest"] == nil {
		t.Fatal("cmd/bromure-guest is not there")
	}
	for _, path := range reach(all, "cmd/bromure-guest") {
		if !within(path, []string{"cmd/bromure-guest", "vm/guest/..."}) {
			t.Errorf("bromure-guest is built from %s", path)
		}
	}
}
