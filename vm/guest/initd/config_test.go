package initd

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"bromure.io/tui/vm/guest"
)

func good() guest.Boot {
	return guest.Boot{
		Version: guest.Version, Mode: guest.Workspace, Hostname: "my-work",
		DiskSerial: "bromure-disk", HomeSerial: "bromure-home",
		Address: guest.GuestAddress, PrefixLen: guest.PrefixLength, Gateway: guest.GatewayAddress, NIC: "02:00:00:aa:bb:cc",
		HostKey: "key", ClientKey: "ssh-ed25519 AAAA",
	}
}

func TestParseBoot(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*guest.Boot)
		want   string // in the error; empty: none
	}{
		{"complete", func(*guest.Boot) {}, ""},
		{"home on the root disk", func(b *guest.Boot) { b.HomeSerial = "" }, ""},
		{"an MTU", func(b *guest.Boot) { b.GuestMTU = guest.MTU }, ""},
		{"a probe needs nothing", func(b *guest.Boot) { *b = guest.Boot{Mode: guest.Probe} }, ""},
		{"no mode", func(b *guest.Boot) { b.Mode = "" }, "mode"},
		{"another version", func(b *guest.Boot) { b.Version++ }, "version"},
		{"a name with a line break", func(b *guest.Boot) { b.Hostname = "a\nb" }, "host name"},
		{"no name", func(b *guest.Boot) { b.Hostname = "" }, "host name"},
		{"no disk", func(b *guest.Boot) { b.DiskSerial = "" }, "serial"},
		{"one serial for two disks", func(b *guest.Boot) { b.HomeSerial = b.DiskSerial }, "serial"},
		{"no host key", func(b *guest.Boot) { b.HostKey = "" }, "key"},
		{"no client key", func(b *guest.Boot) { b.ClientKey = "" }, "key"},
		{"IPv6", func(b *guest.Boot) { b.Address = "fd00::2" }, "IPv4"},
		{"no prefix", func(b *guest.Boot) { b.PrefixLen = 0 }, "IPv4"},
		{"no gateway", func(b *guest.Boot) { b.Gateway = "" }, "gateway"},
		{"no card", func(b *guest.Boot) { b.NIC = "" }, "card"},
		{"a long card", func(b *guest.Boot) { b.NIC = "02:00:00:aa:bb:cc:dd:ee" }, "card"},
		{"a tiny MTU", func(b *guest.Boot) { b.GuestMTU = 67 }, "MTU"},
		{"a huge MTU", func(b *guest.Boot) { b.GuestMTU = 1 << 20 }, "MTU"},
	} {
		b := good()
		c.change(&b)
		text, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		_, err = parseBoot(text)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
	for _, text := range []string{"", "null", "[]", "{", `{"mode":5}`} {
		if _, err := parseBoot([]byte(text)); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func TestParseNetwork(t *testing.T) {
	n, err := parseNetwork(good())
	if err != nil || n.prefix.String() != "192.168.127.2/24" || n.gateway.String() != "192.168.127.1" || n.mac.String() != "02:00:00:aa:bb:cc" || n.mtu != 0 {
		t.Errorf("%+v, %v", n, err)
	}
}

func TestParseOrder(t *testing.T) {
	got, err := parseOrder([]byte("# comment\nvirtio.ko\n\n  net/virtio_net.ko  \nlast.ko"))
	if want := []string{"virtio.ko", "net/virtio_net.ko", "last.ko"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	for _, in := range []string{"/etc/passwd", "../x.ko", "..", "a/../../b", "a//b", "./a"} {
		if got, err := parseOrder([]byte(in)); err == nil {
			t.Errorf("%q was taken: %q", in, got)
		}
	}
}

func FuzzParseBoot(f *testing.F) {
	b, err := json.Marshal(good())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"mode":"probe"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		boot, err := parseBoot(b)
		if err != nil || boot.Mode == guest.Probe {
			return
		}
		if n, err := parseNetwork(boot); err != nil || !n.prefix.Addr().Is4() || !n.gateway.Is4() || len(n.mac) != 6 {
			t.Errorf("%+v was taken, but its network is %+v, %v", boot, n, err)
		}
	})
}
