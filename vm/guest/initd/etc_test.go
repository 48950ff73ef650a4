package initd

import (
	"net/netip"
	"testing"
	"time"
)

func TestMergeHosts(t *testing.T) {
	const base = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost\n"
	const ours = "127.0.1.1\twork # bromure\n"
	for _, c := range []struct{ name, old, want string }{
		{"none", "", "127.0.0.1\tlocalhost\n" + ours},
		{"blank", "\n", "\n127.0.0.1\tlocalhost\n" + ours},
		{"the image's", base, base + ours},
		{"as we left it", base + ours, base + ours},
		{"the workspace was renamed", base + "127.0.1.1\told # bromure\n", base + ours},
		{"twice", ours + base + "127.0.1.1\told # bromure\n", base + ours},
		{"the user names it", base + "10.0.0.1 db work\n", base + "10.0.0.1 db work\n"},
		{"the user names it now", base + ours + "10.0.0.1 WORK\n", base + "10.0.0.1 WORK\n"},
		{"only in a comment", base + "# 10.0.0.1 work\n", base + "# 10.0.0.1 work\n" + ours},
		{"another name that contains it", base + "10.0.0.1 workshop\n", base + "10.0.0.1 workshop\n" + ours},
		{"it is an address", "work other\n", "work other\n" + ours},
		{"no newline at the end", "127.0.0.1 localhost", "127.0.0.1 localhost\n" + ours},
	} {
		got, changed := mergeHosts(c.old, "work")
		if got != c.want || changed != (c.old != c.want) {
			t.Errorf("%s: %q, %v; want %q", c.name, got, changed, c.want)
		}
		if again, changed := mergeHosts(got, "work"); changed {
			t.Errorf("%s: once more gives %q", c.name, again)
		}
	}
}

func TestMergeResolv(t *testing.T) {
	const ours = "# bromure\nnameserver 192.168.127.1\n"
	gateway := netip.MustParseAddr("192.168.127.1")
	for _, c := range []struct{ name, old, want string }{
		{"none", "", ours},
		{"as we left it", ours, ours},
		{"ours, for another gateway", "# bromure\nnameserver 10.0.0.1\n", ours},
		{"without a name server", "search example.com\n", ours},
		{"commented out", "# nameserver 10.0.0.1\n", ours},
		{"the user's", "nameserver 10.0.0.1\n", "nameserver 10.0.0.1\n"},
		{"the user's, with a tab", "search a\nnameserver\t10.0.0.1\n", "search a\nnameserver\t10.0.0.1\n"},
	} {
		got, changed := mergeResolv(c.old, gateway)
		if got != c.want || changed != (c.old != c.want) {
			t.Errorf("%s: %q, %v; want %q", c.name, got, changed, c.want)
		}
	}
}

func TestZoneFile(t *testing.T) {
	for in, want := range map[string]string{
		"Europe/Berlin": "/usr/share/zoneinfo/Europe/Berlin", "UTC": "/usr/share/zoneinfo/UTC", "Etc/GMT+5": "/usr/share/zoneinfo/Etc/GMT+5",
		"America/Argentina/Buenos_Aires": "/usr/share/zoneinfo/America/Argentina/Buenos_Aires",
		"":                               "", "/etc/passwd": "", "../../etc/passwd": "", "Europe/../../x": "", "Europe/": "", ".hidden": "", "a\nb": "", "a b": "", "a\x00": "",
	} {
		if got := zoneFile(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestClockBehind(t *testing.T) {
	boot := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name  string
		clock time.Time
		want  bool
	}{
		{"right", boot.Add(300 * time.Millisecond), false},
		{"a little behind", boot.Add(-time.Second), false},
		{"behind", boot.Add(-1001 * time.Millisecond), true},
		{"no battery", time.Unix(0, 0), true},
		{"a boot that began a while ago", boot.Add(48 * time.Hour), false},
	} {
		if got := clockBehind(c.clock, boot); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if clockBehind(time.Unix(0, 0), time.Time{}) {
		t.Error("a boot file without a time sets the clock")
	}
}
