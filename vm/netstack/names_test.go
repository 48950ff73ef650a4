package netstack

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func mustName(t testing.TB, n *Names, name string) netip.Addr {
	t.Helper()
	a, err := n.Assign(name)
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := n.Reverse(a); !ok || got != name {
		t.Fatalf("%s is %q", a, got)
	}
	if got, ok := n.Lookup(name); !ok || got != a {
		t.Fatalf("%q is %s", name, got)
	}
	return a
}

func TestNormalName(t *testing.T) {
	label := strings.Repeat("x", 63)
	long := strings.Repeat(label+".", 3) + strings.Repeat("y", 61)
	for in, want := range map[string]string{
		"Example.COM.": "example.com", "a.b": "a.b", "xn--bcher-kva.example": "xn--bcher-kva.example",
		"_dmarc.example.com": "_dmarc.example.com", "1.2.3.4.nip.io": "1.2.3.4.nip.io", long: long,
		"": "", ".": "", "a": "", "a..b": "", ".a.b": "", "a.b..": "", "a b.c": "", "a\x00.b": "", "a\x1b.b": "", "bücher.example": "",
		"1.2.3.4": "", "a.1": "", label + "x.com": "", long + "y": "", "a*.b": "", "a/b.c": "", "[::1].a": "",
	} {
		got, ok := NormalName(in)
		if got != want || ok != (want != "") {
			t.Errorf("%q: got %q, %v", in, got, ok)
		}
	}
}

func TestNamesKeepTheirAddresses(t *testing.T) {
	n := NewNames()
	a := mustName(t, n, "a.example")
	b := mustName(t, n, "b.example")
	if a == b || a != mustName(t, n, "a.example") || n.Len() != 2 {
		t.Error("addresses changed")
	}
	data, err := n.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	m := NewNames()
	if err := m.Load(data); err != nil {
		t.Fatal(err)
	}
	if a != mustName(t, m, "a.example") || b != mustName(t, m, "b.example") {
		t.Error("addresses changed over a restart")
	}
	for _, addr := range []string{"198.18.0.0", "198.17.255.255", "198.20.0.0", "::1", "::ffff:198.18.0.1"} {
		if got, ok := n.Reverse(netip.MustParseAddr(addr)); ok {
			t.Errorf("%s is %q", addr, got)
		}
	}
	if _, ok := n.Reverse(netip.Addr{}); ok {
		t.Error("no address has a name")
	}
}

// The whole range is handed out, over a table that holds little, with restarts of the daemon, clean and not, and no address
// comes twice. After NewBoot there are addresses again.
func TestNoAddressTwice(t *testing.T) {
	const limit = 100
	seen := make(map[netip.Addr]string)
	var saved []byte
	fresh := func() *Names {
		n := newNames(limit)
		n.Persist(func(b []byte) { saved = slices.Clone(b) })
		return n
	}
	n := fresh()
	i := 0
	for ; ; i++ {
		name := fmt.Sprintf("n%d.example", i)
		a, err := n.Assign(name)
		if errors.Is(err, ErrNamesFull) {
			break
		}
		if other, ok := seen[a]; ok {
			t.Fatalf("%s went to %q and to %q", a, other, name)
		}
		seen[a] = name
		if i%20_011 == 20_010 { // the daemon crashes: what was persisted is all that is left
			n = fresh()
			if err := n.Load(saved); err != nil {
				t.Fatal(err)
			}
		}
		if i%30_011 == 30_010 { // the daemon restarts
			data, err := n.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			n = fresh()
			if err := n.Load(data); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n.Len() > limit || i < 120_000 || i > addresses {
		t.Errorf("%d names, %d of them kept", i, n.Len())
	}
	kept := fmt.Sprintf("n%d.example", i-1)
	before, _ := n.Lookup(kept)
	n.NewBoot()
	if a := mustName(t, n, "again.example"); a == before {
		t.Error("an address that is in use was given out")
	}
	if after, ok := n.Lookup(kept); !ok || after != before {
		t.Error("a new boot forgot a name")
	}
}

func TestEviction(t *testing.T) {
	n := newNames(3)
	a := mustName(t, n, "a.example")
	mustName(t, n, "b.example")
	mustName(t, n, "c.example")
	release := n.hold(a)
	mustName(t, n, "b.example") // asked for again
	mustName(t, n, "d.example") // c goes: a is in use
	if _, ok := n.Lookup("c.example"); ok {
		t.Error("c is still there")
	}
	mustName(t, n, "e.example") // then b
	if _, ok := n.Lookup("a.example"); !ok {
		t.Error("a name with a connection is gone")
	}
	release()
	mustName(t, n, "f.example")
	if _, ok := n.Lookup("a.example"); ok {
		t.Error("a is still there")
	}
	if again := mustName(t, n, "a.example"); again == a {
		t.Error("an address came back while the machine lives")
	}
}

// A name of an earlier boot that is evicted in this one: the guest may have asked for it, so its address is spent.
func TestEvictedNameOfAnEarlierBoot(t *testing.T) {
	n := newNames(1)
	old := mustName(t, n, "old.example")
	n.NewBoot()
	if again := mustName(t, n, "old.example"); again != old {
		t.Fatalf("%s became %s", old, again)
	}
	if next := mustName(t, n, "new.example"); next == old {
		t.Errorf("%s was given to a second name", old)
	}
}

// The order in which names were asked for survives, so that the right one is evicted.
func TestOrderSurvives(t *testing.T) {
	n := newNames(2)
	mustName(t, n, "a.example")
	mustName(t, n, "b.example")
	mustName(t, n, "a.example")
	data, err := n.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	n = newNames(2)
	if err := n.Load(data); err != nil {
		t.Fatal(err)
	}
	mustName(t, n, "c.example")
	if _, ok := n.Lookup("a.example"); !ok {
		t.Error("the wrong name was evicted")
	}
	// A smaller limit evicts what is too much.
	small := newNames(1)
	if err := small.Load(data); err != nil || small.Len() != 1 {
		t.Errorf("%v, %d names", err, small.Len())
	}
}

func TestDamagedNamesAreRefused(t *testing.T) {
	entry := func(pairs ...string) string {
		f := namesFile{Version: 1}
		for i := 0; i < len(pairs); i += 2 {
			f.Names = append(f.Names, namesEntry{pairs[i], netip.MustParseAddr(pairs[i+1])})
		}
		b, _ := json.Marshal(f)
		return string(b)
	}
	n := NewNames()
	mustName(t, n, "kept.example")
	for _, data := range []string{
		"", "null", "[]", "{", `{"version":1`, `{"version":2,"names":[]}`, "\x00\x01",
		entry("a.example", "198.18.0.1", "a.example", "198.18.0.2"),
		entry("a.example", "198.18.0.1", "b.example", "198.18.0.1"),
		entry("A.example", "198.18.0.1"),
		entry("a.example.", "198.18.0.1"),
		entry("a", "198.18.0.1"),
		entry("a\x1b.example", "198.18.0.1"),
		entry("a.example", "198.20.0.1"),
		entry("a.example", "127.0.0.1"),
		entry("a.example", "198.18.0.0"),
		entry("a.example", "::1"),
		`{"version":1,"names":[{"name":"a.example","addr":""}]}`,
		`{"version":1,"names":[],"spent":"` + strings.Repeat("A", 4*(addresses/8+3)/3) + `"}`,
		strings.Repeat(" ", maxNamesFile+1),
	} {
		if err := n.Load([]byte(data)); err == nil {
			t.Errorf("%.80q was taken", data)
		}
		if _, ok := n.Lookup("kept.example"); !ok || n.Len() != 1 {
			t.Fatalf("%.80q changed the table", data)
		}
	}
}

func TestPersistComesFirstAndSeldom(t *testing.T) {
	n := NewNames()
	calls := 0
	n.Persist(func(data []byte) {
		if calls++; calls%10 == 1 {
			if err := NewNames().Load(data); err != nil {
				t.Error(err)
			}
		}
	})
	const names = 20_000
	for i := range names {
		if _, err := n.Assign(fmt.Sprintf("%d.example", i)); err != nil {
			t.Fatal(err)
		}
		if calls == 0 {
			t.Fatal("an address was given out before it was written down")
		}
	}
	if calls > 120 {
		t.Errorf("written %d times for %d names", calls, names)
	}
}

func FuzzNamesLoad(f *testing.F) {
	n := NewNames()
	n.Assign("a.example")
	n.Assign("b.example")
	data, _ := n.Marshal()
	f.Add(data)
	f.Add([]byte(`{"version":1,"names":[{"name":"a.b","addr":"198.18.0.1"}],"spent":"/w=="}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		n := NewNames()
		if n.Load(data) != nil {
			return
		}
		out, err := n.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if err := NewNames().Load(out); err != nil {
			t.Errorf("what was loaded cannot be loaded again: %v", err)
		}
		a, err := n.Assign("fresh.example")
		if err != nil {
			t.Skip()
		}
		if name, _ := n.Reverse(a); name != "fresh.example" {
			t.Errorf("%s is %q", a, name)
		}
	})
}
