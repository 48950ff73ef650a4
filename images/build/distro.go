package build

import (
	"bufio"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"bromure.io/tui/internal/problem"
)

// distro is what this program knows of a distribution. It is data: what is done with it is the same for all.
type distro struct {
	id         string            // ID of os-release(5)
	releases   map[string]string // suite → version, of the suites that were looked at
	components []string          // the archive's own
	keyrings   []string          // where its key may be on a host; the first is where it is in the image too
	keyHint    string            // how the key comes to a host
	mirrors    map[string]mirror // by Go architecture, for a host that has no sources of it; nil: it must have
	packages   []string          // beyond what the variant "minbase" brings
	kernels    map[string]string // by Go architecture: the package that depends on the current kernel
}

// mirror is a distribution's public archive: where the packages are and where the security updates.
type mirror struct{ archive, security string }

// packages of both distributions. Each is there for a reason that a user would notice.
var packages = []string{
	"systemd", "systemd-sysv", "dbus", // the init and its bus
	"sudo", "passwd", "git", "tmux", "curl", "ca-certificates", "openssh-client", "less", "vim-tiny",
	"apt", "iproute2", "procps", "kmod", "netbase", "tzdata", "e2fsprogs",
}

var distros = map[string]*distro{
	"debian": {
		id:         "debian",
		releases:   map[string]string{"bookworm": "12", "trixie": "13"},
		components: []string{"main", "contrib", "non-free", "non-free-firmware"},
		keyrings:   []string{"/usr/share/keyrings/debian-archive-keyring.gpg", "/usr/share/keyrings/debian-archive-keyring.pgp"},
		keyHint:    "sudo apt-get install debian-archive-keyring",
		packages:   packages,
		kernels:    map[string]string{"amd64": "linux-image-cloud-amd64", "arm64": "linux-image-cloud-arm64"},
	},
	"ubuntu": {
		id:         "ubuntu",
		releases:   map[string]string{"noble": "24.04"},
		components: []string{"main", "restricted", "universe", "multiverse"},
		keyrings:   []string{"/usr/share/keyrings/ubuntu-archive-keyring.gpg"},
		keyHint:    "Install the package ubuntu-keyring or ubuntu-archive-keyring, or copy the file from an Ubuntu machine.",
		mirrors: map[string]mirror{
			"amd64": {"http://archive.ubuntu.com/ubuntu", "http://security.ubuntu.com/ubuntu"},
			"arm64": {"http://ports.ubuntu.com/ubuntu-ports", "http://ports.ubuntu.com/ubuntu-ports"},
		},
		packages: packages,
		kernels:  map[string]string{"amd64": "linux-image-virtual", "arm64": "linux-image-virtual"},
	},
}

// plan is everything a build needs to know before it starts.
type plan struct {
	distro  *distro
	suite   string
	release string // version number, or the suite where it is not known
	arch    string // as Go names it; Debian's names of amd64 and arm64 are the same
	sources []source
	keyring string // on the host
	kernel  string // package
}

// osRelease reads the fields of os-release(5).
func osRelease(host fs.FS) map[string]string {
	out := map[string]string{}
	for _, name := range []string{"etc/os-release", "usr/lib/os-release"} {
		b, err := fs.ReadFile(host, name)
		if err != nil {
			continue
		}
		sc := bufio.NewScanner(strings.NewReader(string(b)))
		for sc.Scan() {
			if k, v, ok := strings.Cut(sc.Text(), "="); ok && !strings.HasPrefix(k, "#") {
				if u, err := strconv.Unquote(v); err == nil {
					v = u
				}
				out[strings.TrimSpace(k)] = strings.Trim(v, "'")
			}
		}
		return out
	}
	return out
}

// makePlan decides what to build from where. Empty id and suite mean the host's own.
func makePlan(host fs.FS, id, suite, arch string) (*plan, error) {
	rel := osRelease(host)
	hostID, hostSuite := rel["ID"], rel["VERSION_CODENAME"]
	if id == "" {
		id = hostID
	}
	d := distros[id]
	if d == nil {
		known := strings.Join(slices.Sorted(maps.Keys(distros)), " or ")
		if id == hostID {
			return nil, problem.New(problem.Missing, fmt.Sprintf("no recipe for an image of this host's distribution (%q)", id),
				"Choose one with --distro "+known+".")
		}
		return nil, problem.New(problem.Usage, fmt.Sprintf("no recipe for a distribution %q", id), "Choose one with --distro "+known+".")
	}
	if suite == "" && id == hostID {
		suite = hostSuite
	}
	if suite == "" {
		suite = newest(d.releases)
	}
	if !validSuite(suite) {
		return nil, problem.New(problem.Usage, fmt.Sprintf("not a suite: %q", suite), "Give a release's name, for example --suite "+newest(d.releases)+".")
	}
	p := &plan{distro: d, suite: suite, release: d.releases[suite], arch: arch, kernel: d.kernels[arch]}
	if p.release == "" {
		if p.release = suite; id == hostID && suite == hostSuite && rel["VERSION_ID"] != "" {
			p.release = rel["VERSION_ID"]
		}
	}
	if p.kernel == "" {
		return nil, problem.New(problem.Missing, fmt.Sprintf("no recipe for %s on %s", id, arch), "Images are built on amd64 and arm64.")
	}
	for _, k := range d.keyrings {
		if _, err := fs.Stat(host, k[1:]); err == nil {
			p.keyring = k
			break
		}
	}
	if p.keyring == "" {
		return nil, problem.New(problem.Missing, fmt.Sprintf("the keys that sign the packages of %s are not on this host (%s)", id, d.keyrings[0]), d.keyHint)
	}
	if id == hostID {
		p.sources = d.choose(readSources(host), hostSuite, suite)
	} else {
		p.sources = d.choose(readSources(host), suite, suite)
	}
	if len(p.sources) == 0 && id == hostID {
		return nil, problem.New(problem.Missing, fmt.Sprintf("no package source of %s %s in /etc/apt/sources.list or /etc/apt/sources.list.d", id, hostSuite),
			"Add the distribution's own source there; sources.list(5) shows how.")
	}
	if len(p.sources) == 0 && d.mirrors == nil {
		return nil, problem.New(problem.Missing, fmt.Sprintf("this host has no package source of %s %s", id, suite),
			"Add one to /etc/apt/sources.list.d; sources.list(5) shows how.")
	}
	if len(p.sources) == 0 {
		p.sources = d.public(suite, arch)
	}
	return p, nil
}

// public are the distribution's public archives.
func (d *distro) public(suite, arch string) []source {
	m := d.mirrors[arch]
	components := d.components[:1]
	if d.id == "ubuntu" {
		components = []string{"main", "universe"}
	}
	return []source{
		{uri: m.archive, suite: suite, components: components},
		{uri: m.archive, suite: suite + "-updates", components: components},
		{uri: m.security, suite: suite + "-security", components: components},
	}
}

// newest is the suite with the highest version.
func newest(releases map[string]string) string {
	num := func(suite string) float64 { v, _ := strconv.ParseFloat(releases[suite], 64); return v }
	return slices.MaxFunc(slices.Collect(maps.Keys(releases)), func(a, b string) int {
		switch d := num(a) - num(b); {
		case d < 0:
			return -1
		case d > 0:
			return 1
		}
		return 0
	})
}

// validSuite keeps what is put on command lines and into file names to what suites are made of.
func validSuite(s string) bool {
	if s == "" || len(s) > 32 {
		return false
	}
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') {
			return false
		}
	}
	return true
}
