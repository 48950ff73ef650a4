package sysinfo

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

const procTCP = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode                                                     
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0000000000000000 100 0 0 10 0
   1: 027FA8C0:0016 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12 1 0000000000000000 100 0 0 10 0
   2: 027FA8C0:0016 017FA8C0:9C40 01 00000000:00000000 02:0009C5D4 00000000     0        0 13 2 0000000000000000 20 4 30 10 -1
   3: 00000000:0BB8 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4712 1 0000000000000000 100 0 0 10 0
`

const procTCP6 = `  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000001000000:0277 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4713 1 0000000000000000 100 0 0 10 0
   1: 0000000000000000FFFF00000100007F:1F91 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4714 1 0000000000000000 100 0 0 10 0
`

func TestParseSockets(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []socket
	}{
		{"tcp", procTCP, []socket{
			{netip.MustParseAddrPort("127.0.0.1:8080"), 4711},
			{netip.MustParseAddrPort("192.168.127.2:22"), 12},
			{netip.MustParseAddrPort("0.0.0.0:3000"), 4712},
		}},
		{"tcp6", procTCP6, []socket{
			{netip.MustParseAddrPort("[::1]:631"), 4713},
			{netip.MustParseAddrPort("[::ffff:127.0.0.1]:8081"), 4714},
		}},
		{"empty", "", nil},
		{"header only", strings.SplitAfter(procTCP, "\n")[0], nil},
	} {
		got, err := parseSockets(strings.NewReader(c.in))
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, %v; want %v", c.name, got, err, c.want)
		}
	}
	for _, line := range []string{
		"0: 0100007F:1F90 0:0 0A",
		"0: 0100007F 0:0 0A 0 0 0 1000 0 4711 1",
		"0: 0100007F:1FFF90 0:0 0A 0 0 0 1000 0 4711 1",
		"0: 0100007:1F90 0:0 0A 0 0 0 1000 0 4711 1",
		"0: 0100007G:1F90 0:0 0A 0 0 0 1000 0 4711 1",
		"0: 0100007F:1F90 0:0 0A 0 0 0 1000 0 -4711 1",
		strings.Repeat("x", 5000),
	} {
		if got, err := parseSockets(strings.NewReader("header\n" + line + "\n")); err == nil {
			t.Errorf("%.60q was read as %v", line, got)
		}
	}
}

func TestSocketsAreBounded(t *testing.T) {
	var b strings.Builder
	b.WriteString("header\n")
	for i := range 2 * maxSockets {
		fmt.Fprintf(&b, "%d: 0100007F:1F90 0:0 0A 0 0 0 1000 0 %d 1\n", i, i)
	}
	got, err := parseSockets(strings.NewReader(b.String()))
	if err != nil || len(got) != maxSockets {
		t.Errorf("%d sockets, %v", len(got), err)
	}
}

func TestParseSocketLink(t *testing.T) {
	for in, want := range map[string]uint64{
		"socket:[4711]": 4711, "socket:[0]": 0, "socket:[]": 1 << 63, "socket:[1": 1 << 63, "pipe:[1]": 1 << 63, "/dev/null": 1 << 63,
		"socket:[-1]": 1 << 63, "socket:[x]": 1 << 63, "": 1 << 63, "socket:[99999999999999999999]": 1 << 63,
	} {
		if got, ok := parseSocketLink(in); ok != (want != 1<<63) || ok && got != want {
			t.Errorf("%q: %d, %v", in, got, ok)
		}
	}
}

func FuzzSockets(f *testing.F) {
	f.Add(procTCP)
	f.Add(procTCP6)
	f.Fuzz(func(t *testing.T, in string) {
		got, _ := parseSockets(strings.NewReader(in))
		if len(got) > maxSockets {
			t.Errorf("%d sockets", len(got))
		}
		for _, s := range got {
			if !s.addr.IsValid() {
				t.Errorf("not an address: %v", s.addr)
			}
		}
	})
}
