package arch

import (
	"slices"
	"strings"
	"testing"
)

// door is a standard package or a module that only some rooms may use.
type door struct {
	imports []string // patterns over import paths
	may     []string // patterns over our packages
	why     string
}

var doors = []door{
	// What touches the world. Words stay pure: quick to test, safe to show on a screen.
	{[]string{"os/exec"}, []string{
		"images/build", "vm/disk", "vm/disk/disktest", "vm/qemu", "vm/guest/initd", "vm/guest/agent", "vm/guest/process", "vm/guest/sshd",
		"internal/control", "internal/control/controltest", "internal/daemon/daemontest", "internal/cli", "ui/console", "tools/...",
	}, "runs programs"},
	{[]string{"net/http", "net/http/..."}, []string{
		"internal/control", "internal/cli", "proxy/mitm", "proxy/sigv4", "images/fetch",
	}, "speaks HTTP"},
	{[]string{"net"}, []string{
		"internal/control", "internal/control/controltest", "internal/daemon", "internal/daemon/daemontest", "internal/cli", "vm/qemu", "vm/qemu/qmp", "vm/vz", "vm/netstack/...", "vm/link", "vm/vmtest/...",
		"vm/guest/initd", "vm/guest/agent", "vm/guest/sshd", "vm/guest/sysinfo", "secrets/sshagent", "proxy/mitm", "ui/console", "tools/...",
	}, "opens connections"},
	{[]string{"syscall", "golang.org/x/sys/..."}, []string{
		"internal/layout", "internal/atomicfile", "internal/ring", "internal/control", "internal/control/controltest", "internal/cli", "internal/daemon", "internal/daemon/daemontest",
		"images/build", "images/store", "vm/disk", "vm/store", "vm/qemu", "vm/vz", "vm/netstack", "vm/link", "vm/vmtest/...",
		"vm/guest/initd", "vm/guest/agent", "vm/guest/sshd", "vm/guest/sysinfo", "vm/guest/report", "vm/guest/login", "vm/guest/process", "vm/guest/console",
		"cmd/bromure-guest", "ui/console", "tools/...",
		"internal/problem", // names of errors only
		"internal/failpoint", "internal/removal",
	}, "talks to the kernel"},
	{[]string{"unsafe"}, []string{"vm/vz", "vm/disk", "vm/guest/sysinfo", "vm/vmtest/testguest"}, "gives up memory safety: ioctls that x/sys does not wrap"},
	{[]string{"log", "expvar", "net/http/pprof"}, nil, "global state; log/slog is passed where it is needed"},
	{[]string{"testing", "testing/..."}, []string{"vm/vmtest", "internal/control/controltest", "vm/disk/disktest", "internal/daemon/daemontest"}, "belongs in tests"},

	// Modules of others. What is not listed may not be imported: a new dependency is a decision.
	{[]string{"golang.org/x/text/..."}, []string{"vm", "internal/printable", "secrets", "ui/..."}, "Unicode normalisation and folding"},
	{[]string{"golang.org/x/crypto/ssh", "golang.org/x/crypto/ssh/..."}, []string{"vm/link", "vm/guest/sshd", "vm/guest/agent", "secrets/sshagent", "internal/daemon/daemontest"}, "SSH"},
	{[]string{"golang.org/x/crypto/..."}, []string{"vm/link", "vm/guest/sshd", "secrets/..."}, "cryptography beyond the standard library"},
	{[]string{"golang.org/x/net/dns/..."}, []string{"vm/netstack"}, "the DNS of a segment"},
	{[]string{"golang.org/x/net/..."}, []string{"vm/netstack", "proxy/mitm"}, "protocols"},
	{[]string{"golang.org/x/sync/..."}, []string{"internal/...", "vm/...", "images/..."}, "groups of goroutines"},
	{[]string{"golang.org/x/term"}, []string{"internal/cli", "ui/console"}, "raw terminals"},
	{[]string{"gvisor.dev/gvisor/..."}, []string{"vm/netstack/..."}, "the TCP/IP stack"},
	{[]string{"github.com/pkg/sftp"}, []string{"vm/guest/sshd", "vm/link"}, "file transfer"},
	{[]string{"github.com/creack/pty"}, []string{"vm/guest/process", "ui/console", "internal/cli", "internal/control/controltest"}, "pseudo-terminals"},
	{[]string{"github.com/spf13/cobra", "github.com/spf13/pflag"}, []string{"internal/cli"}, "the command tree"},
	{[]string{"github.com/klauspost/compress/...", "github.com/ulikunitz/xz", "github.com/pierrec/lz4/v4"}, []string{"images/build"}, "compressed kernels and modules"},
	{[]string{"charm.land/bubbletea/v2", "charm.land/lipgloss/v2", "charm.land/bubbles/v2/..."}, []string{"ui", "ui/..."}, "the TUI's framework"},
	{[]string{"github.com/charmbracelet/ultraviolet", "github.com/charmbracelet/x/vt"}, []string{"ui/console"}, "cells and the terminal emulator of the console panel"},
	{[]string{"github.com/charmbracelet/x/..."}, []string{"ui/...", "internal/printable", "internal/cli"}, "terminal text"},
}

func TestDoorsAreKept(t *testing.T) {
	for path, p := range load(t) {
		for i, files := range p.imports {
			if i == module || strings.HasPrefix(i, module+"/") {
				continue
			}
			known := !strings.Contains(strings.Split(i, "/")[0], ".") // the standard library is open unless a door says otherwise
			allowed := known
			var why []string
			for _, d := range doors {
				if !within(i, d.imports) {
					continue
				}
				known = true
				// The first door that names an import decides: the narrow ones stand first.
				allowed = within(path, d.may)
				why = append(why, d.why)
				break
			}
			switch {
			case !known:
				t.Errorf("%q import %s: no row in doors_test.go allows that module anywhere", files, i)
			case !allowed:
				t.Errorf("%q import %s (%s): %s may not", files, i, strings.Join(why, ", "), path)
			}
		}
	}
}

// TestFrontsTouchNothing: a screen is a function; only the console owns a process.
func TestFrontsTouchNothing(t *testing.T) {
	for path, p := range load(t) {
		if !within(path, []string{"ui/..."}) || path == "ui/console" {
			continue
		}
		for _, i := range []string{"os/exec", "net", "net/http"} {
			if files := p.imports[i]; len(files) > 0 {
				t.Errorf("%q import %s", files, i)
			}
		}
	}
}

// TestDaemonIsImportedByItsStarterOnly: whoever imports the daemon can reach what it holds. The harness is for tests, as it imports testing.
func TestDaemonIsImportedByItsStarterOnly(t *testing.T) {
	for path, p := range load(t) {
		if slices.Contains(p.ours(), "internal/daemon") && !within(path, []string{"internal/cli/program", "internal/daemon/daemontest", "cmd/..."}) {
			t.Errorf("%s imports internal/daemon", path)
		}
	}
}
