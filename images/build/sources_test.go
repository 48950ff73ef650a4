package build

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestParseList(t *testing.T) {
	got := parseList(`
# deb http://commented.example/debian bookworm main
deb http://deb.example/debian bookworm main contrib # said here
deb-src http://deb.example/debian bookworm main
	deb [arch=amd64 signed-by=/usr/share/keyrings/k.gpg] https://x.example/y  bookworm-updates	main
deb [broken http://deb.example/debian bookworm main
deb cdrom:[Debian_12]/ bookworm main
debhttp://deb.example nothing
deb http://flat.example/
deb`)
	want := []source{
		{"http://deb.example/debian", "bookworm", []string{"main", "contrib"}, ""},
		{"https://x.example/y", "bookworm-updates", []string{"main"}, "/usr/share/keyrings/k.gpg"},
		{"cdrom:[Debian_12]/", "bookworm", []string{"main"}, ""},
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(source{})); d != "" {
		t.Error(d)
	}
}

func TestParseDeb822(t *testing.T) {
	got := parseDeb822(`# first
Types: deb deb-src
# between
URIs: http://a.example/debian
 http://b.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg


Types: deb
URIs: http://off.example
Suites: bookworm
Components: main
Enabled: no

types: deb
uris: http://inline.example
suites: bookworm
components: main
signed-by:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mQINBGPL

Types: deb-src
URIs: http://src.example
Suites: bookworm
no colon here`)
	k := "/usr/share/keyrings/debian-archive-keyring.gpg"
	want := []source{
		{"http://a.example/debian", "bookworm", []string{"main"}, k},
		{"http://a.example/debian", "bookworm-updates", []string{"main"}, k},
		{"http://b.example/debian", "bookworm", []string{"main"}, k},
		{"http://b.example/debian", "bookworm-updates", []string{"main"}, k},
		{"http://inline.example", "bookworm", []string{"main"}, "\n-----BEGIN PGP PUBLIC KEY BLOCK-----\n.\nmQINBGPL"},
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(source{})); d != "" {
		t.Error(d)
	}
}

// Sources of others often have the distribution's suite names.
func TestChoose(t *testing.T) {
	host := fstest.MapFS{
		"etc/apt/sources.list": {Data: []byte(`
deb http://user:pass@mirror.example/debian bookworm main non-free-firmware
deb http://mirror.example/debian bookworm-updates main
deb http://mirror.example/debian bookworm-updates main
deb http://mirror.example/debian bookworm-backports main
deb http://mirror.example/debian trixie main
deb cdrom:[Debian_12]/ bookworm main
deb file:/srv/debian bookworm main
`)},
		"etc/apt/sources.list.d/docker.list":            {Data: []byte("deb [arch=amd64 signed-by=/etc/apt/keyrings/docker.asc] https://docker.example/linux/debian bookworm stable\n")},
		"etc/apt/sources.list.d/tools.list":             {Data: []byte("deb [signed-by=/usr/share/keyrings/tools.gpg] https://tools.example bookworm main\n")},
		"etc/apt/sources.list.d/mixed.list":             {Data: []byte("deb http://mixed.example/debian bookworm main extra\n")},
		"etc/apt/sources.list.d/security.sources":       {Data: []byte("Types: deb\nURIs: https://sec.example/debian-security\nSuites: bookworm-security\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n")},
		"etc/apt/sources.list.d/old.list.disabled":      {Data: []byte("deb http://old.example/debian bookworm main\n")},
		"etc/apt/sources.list.d/sub.list/not-a-file":    {Data: nil},
		"etc/apt/sources.list.d/editor.sources~":        {Data: []byte("Types: deb\nURIs: http://old.example\nSuites: bookworm\nComponents: main\n")},
		"usr/share/keyrings/debian-archive-keyring.gpg": {Data: []byte("key")},
	}
	var got []string
	chosen := distros["debian"].choose(readSources(host), "bookworm", "bookworm")
	for _, s := range chosen {
		got = append(got, s.line(""))
	}
	want := []string{
		"deb http://user:pass@mirror.example/debian bookworm main non-free-firmware",
		"deb http://mirror.example/debian bookworm-updates main",
		"deb http://mixed.example/debian bookworm main",
		"deb https://sec.example/debian-security bookworm-security main",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	file := deb822(chosen, "/usr/share/keyrings/debian-archive-keyring.gpg")
	if strings.Contains(file, "pass") || strings.Contains(file, "user") && !strings.Contains(file, "/usr/") {
		t.Errorf("the image's sources have the host's password:\n%s", file)
	}
	if back := parseDeb822(file); len(back) != len(chosen) || back[0].uri != "http://mirror.example/debian" || back[0].signedBy == "" {
		t.Errorf("the image's sources read back as %v", back)
	}
}

func TestPickAptOptions(t *testing.T) {
	got := pickAptOptions(`Acquire::http::Proxy "http://proxy.example:3128";
Acquire::http::Proxy-Auto-Detect "/usr/bin/detect";
Acquire::https::CAInfo "/etc/ssl/corp.pem";
Acquire::Check-Valid-Until "false";
Acquire::Languages "none";
Acquire::GzipIndexes "true";
`)
	want := `Acquire::http::Proxy "http://proxy.example:3128";
Acquire::https::CAInfo "/etc/ssl/corp.pem";
Acquire::Check-Valid-Until "false";
`
	if got != want {
		t.Errorf("got\n%s", got)
	}
}
