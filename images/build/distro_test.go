package build

import (
	"strings"
	"testing"
	"testing/fstest"

	"bromure.io/tui/internal/problem"
)

const bookworm = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\nVERSION_ID=\"12\"\nVERSION_CODENAME=bookworm\n"

// debianHost is a host as the distribution's installer leaves it.
func debianHost() fstest.MapFS {
	return fstest.MapFS{
		"etc/os-release":       {Data: []byte(bookworm)},
		"etc/apt/sources.list": {Data: []byte("deb http://mirror.example/debian bookworm main\ndeb http://mirror.example/debian-security bookworm-security main\n")},
		"usr/share/keyrings/debian-archive-keyring.gpg": {Data: []byte("key")},
	}
}

func TestPlanOfTheHostsOwnDistribution(t *testing.T) {
	p, err := makePlan(debianHost(), "", "", "amd64")
	if err != nil {
		t.Fatal(err)
	}
	if p.distro.id != "debian" || p.suite != "bookworm" || p.release != "12" || p.kernel != "linux-image-cloud-amd64" ||
		p.keyring != "/usr/share/keyrings/debian-archive-keyring.gpg" || len(p.sources) != 2 {
		t.Errorf("%+v", p)
	}
	if p, err = makePlan(debianHost(), "debian", "", "arm64"); err != nil || p.kernel != "linux-image-cloud-arm64" {
		t.Errorf("%+v, %v", p, err)
	}
}

// Another suite of the host's distribution comes from the host's mirror.
func TestPlanOfAnotherSuite(t *testing.T) {
	p, err := makePlan(debianHost(), "", "trixie", "amd64")
	if err != nil {
		t.Fatal(err)
	}
	if p.release != "13" || p.sources[0].line("") != "deb http://mirror.example/debian trixie main" ||
		p.sources[1].line("") != "deb http://mirror.example/debian-security trixie-security main" {
		t.Errorf("%+v", p)
	}
	if p, err = makePlan(debianHost(), "", "forky", "amd64"); err != nil || p.release != "forky" {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestPlanOfUbuntu(t *testing.T) {
	host := debianHost()
	_, err := makePlan(host, "ubuntu", "", "amd64")
	if problem.KindOf(err) != problem.Missing || !strings.Contains(problem.HintOf(err), "ubuntu-keyring") {
		t.Errorf("without keys: %v, hint %q", err, problem.HintOf(err))
	}
	host["usr/share/keyrings/ubuntu-archive-keyring.gpg"] = &fstest.MapFile{Data: []byte("key")}
	p, err := makePlan(host, "ubuntu", "", "amd64")
	if err != nil {
		t.Fatal(err)
	}
	if p.suite != "noble" || p.release != "24.04" || p.kernel != "linux-image-virtual" || len(p.sources) != 3 ||
		p.sources[2].line("") != "deb http://security.ubuntu.com/ubuntu noble-security main universe" {
		t.Errorf("%+v", p)
	}
	host["etc/apt/sources.list.d/u.list"] = &fstest.MapFile{Data: []byte("deb http://u.example/ubuntu noble main universe\n")}
	if p, err = makePlan(host, "ubuntu", "noble", "amd64"); err != nil || len(p.sources) != 1 || p.sources[0].uri != "http://u.example/ubuntu" {
		t.Errorf("the host's own source of it was not taken: %+v, %v", p, err)
	}
}

func TestPlanRefusals(t *testing.T) {
	without := func(change func(fstest.MapFS)) fstest.MapFS {
		h := debianHost()
		change(h)
		return h
	}
	fedora := without(func(h fstest.MapFS) {
		h["etc/os-release"] = &fstest.MapFile{Data: []byte("ID=fedora\nVERSION_ID=43\n")}
	})
	for _, c := range []struct {
		name        string
		host        fstest.MapFS
		id, suite   string
		arch        string
		kind        problem.Kind
		msg, inHint string
	}{
		{"unknown host", fedora, "", "", "amd64", problem.Missing, `"fedora"`, "--distro debian or ubuntu"},
		{"no os-release", fstest.MapFS{}, "", "", "amd64", problem.Missing, `""`, "--distro"},
		{"unknown distro", debianHost(), "gentoo", "", "amd64", problem.Usage, `"gentoo"`, "--distro"},
		{"path as a suite", debianHost(), "", "../../etc", "amd64", problem.Usage, "not a suite", "--suite"},
		{"option as a suite", debianHost(), "", "-x", "amd64", problem.Usage, "not a suite", "--suite"},
		{"architecture", debianHost(), "", "", "riscv64", problem.Missing, "riscv64", "amd64 and arm64"},
		{"no sources", without(func(h fstest.MapFS) { delete(h, "etc/apt/sources.list") }), "", "", "amd64", problem.Missing, "no package source", "sources.list"},
		{"no keys", without(func(h fstest.MapFS) { delete(h, "usr/share/keyrings/debian-archive-keyring.gpg") }), "", "", "amd64", problem.Missing, "keys", "debian-archive-keyring"},
	} {
		_, err := makePlan(c.host, c.id, c.suite, c.arch)
		if err == nil || problem.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.msg) || !strings.Contains(problem.HintOf(err), c.inHint) {
			t.Errorf("%s: %v (%s), hint %q", c.name, err, problem.KindOf(err), problem.HintOf(err))
		}
	}
}
