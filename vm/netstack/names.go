package netstack

import (
	"container/list"
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"sync"
)

// synthetic is where the addresses of names come from: reserved for benchmarks of network
// devices (RFC 2544), so no host on the internet has one.
var synthetic = netip.MustParsePrefix("198.18.0.0/15")

const (
	addresses = 1 << 17 // in synthetic

	// DefaultNames is how many names a table holds.
	DefaultNames = 50_000

	// Addresses are set aside by the block, because each block is persisted: a sixteenth of the names, between these.
	minBlock = 64
	maxBlock = 1024
)

// ErrNamesFull is returned when no address is left for another name.
var ErrNamesFull = errors.New("no synthetic address is left")

// Names is the table of the names that one guest looked up and their synthetic addresses. A name keeps its address, across
// restarts too, until it is evicted as the one that was asked for longest ago; an address is given to a second
// name only after [Names.NewBoot]. Methods may be called from any goroutine.
type Names struct {
	limit   int
	persist func([]byte)

	mu     sync.Mutex
	byName map[string]*list.Element // of *nameEntry
	byAddr map[uint32]*list.Element
	recent *list.List // front: asked for last
	spent  bitmap     // addresses that were given out, or set aside, since NewBoot
	aside  []uint32   // set aside, in order
	cursor uint32     // below it, everything is spent or taken
}

type nameEntry struct {
	name string
	addr uint32 // offset in synthetic
	live int    // open connections to it
}

// NewNames makes an empty table for [DefaultNames] names.
func NewNames() *Names { return newNames(DefaultNames) }

func newNames(limit int) *Names {
	return &Names{
		limit:  limit,
		byName: make(map[string]*list.Element),
		byAddr: make(map[uint32]*list.Element),
		recent: list.New(),
	}
}

// Persist sets a function that is called, with what [Names.Load] reads, before addresses of a new block are given
// out: at the first new name, and then once for every 64 to 1024 of them. It keeps the promise of [Names] across a crash. It must not
// call the table. Its failures are its own to report: the guest's network must not stop because a disk is full.
func (n *Names) Persist(f func(data []byte)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.persist = f
}

// NewBoot says that the guest of before is gone: addresses that no name has may be given out again.
func (n *Names) NewBoot() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.spent, n.aside, n.cursor = bitmap{}, nil, 0
}

// Len is the number of names.
func (n *Names) Len() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.recent.Len()
}

// Lookup is the address of a name, if it has one.
func (n *Names) Lookup(name string) (netip.Addr, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e := n.byName[name]; e != nil {
		return fromOffset(e.Value.(*nameEntry).addr), true
	}
	return netip.Addr{}, false
}

// Reverse is the name of an address, if it has one.
func (n *Names) Reverse(addr netip.Addr) (string, bool) {
	off, ok := toOffset(addr)
	if !ok {
		return "", false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if e := n.byAddr[off]; e != nil {
		return e.Value.(*nameEntry).name, true
	}
	return "", false
}

// Assign is the address of a name, which must be one that [NormalName] made. A new one gets an address.
func (n *Names) Assign(name string) (netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e := n.byName[name]; e != nil {
		n.recent.MoveToFront(e)
		return fromOffset(e.Value.(*nameEntry).addr), nil
	}
	if n.recent.Len() >= n.limit && !n.evict() {
		return netip.Addr{}, ErrNamesFull
	}
	if len(n.aside) == 0 {
		n.setAside()
	}
	if len(n.aside) == 0 {
		return netip.Addr{}, ErrNamesFull
	}
	addr := n.aside[0]
	n.aside = n.aside[1:]
	n.enter(name, addr)
	return fromOffset(addr), nil
}

func (n *Names) enter(name string, addr uint32) {
	e := n.recent.PushFront(&nameEntry{name: name, addr: addr})
	n.byName[name] = e
	n.byAddr[addr] = e
}

// evict forgets the name that was asked for longest ago and has no open connection. Its address stays spent.
func (n *Names) evict() bool {
	for e := n.recent.Back(); e != nil; e = e.Prev() {
		entry := e.Value.(*nameEntry)
		if entry.live > 0 {
			continue
		}
		n.spent.set(entry.addr)
		n.recent.Remove(e)
		delete(n.byName, entry.name)
		delete(n.byAddr, entry.addr)
		return true
	}
	return false
}

// setAside marks a block of free addresses as spent and persists that before one of them is given out: after a
// crash, what was given out and not written down is not given out again.
func (n *Names) setAside() {
	want := min(max(n.recent.Len()/16, minBlock), maxBlock)
	for ; n.cursor < addresses && len(n.aside) < want; n.cursor++ {
		if n.byAddr[n.cursor] != nil || n.spent.has(n.cursor) || !usable(n.cursor) {
			continue
		}
		n.spent.set(n.cursor)
		n.aside = append(n.aside, n.cursor)
	}
	if n.persist != nil && len(n.aside) > 0 {
		if data, err := n.marshal(); err == nil {
			n.persist(data)
		}
	}
}

// usable leaves out addresses that some software takes for a network's or a broadcast address.
func usable(off uint32) bool { return off&0xff != 0 && off&0xff != 0xff }

// hold keeps the name of addr from being evicted until the returned function is called.
func (n *Names) hold(addr netip.Addr) (release func()) {
	off, _ := toOffset(addr)
	n.mu.Lock()
	defer n.mu.Unlock()
	e := n.byAddr[off]
	if e == nil {
		return func() {}
	}
	entry := e.Value.(*nameEntry)
	entry.live++
	return func() {
		n.mu.Lock()
		entry.live--
		n.mu.Unlock()
	}
}

func fromOffset(off uint32) netip.Addr {
	b := synthetic.Addr().As4()
	binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+off)
	return netip.AddrFrom4(b)
}

func toOffset(addr netip.Addr) (uint32, bool) {
	if !addr.Is4() || !synthetic.Contains(addr) {
		return 0, false
	}
	b, base := addr.As4(), synthetic.Addr().As4()
	return binary.BigEndian.Uint32(b[:]) - binary.BigEndian.Uint32(base[:]), true
}

// bitmap has a bit for every synthetic address: 16 KiB.
type bitmap [addresses / 8]byte

func (b *bitmap) set(off uint32)      { b[off/8] |= 1 << (off % 8) }
func (b *bitmap) has(off uint32) bool { return b[off/8]&(1<<(off%8)) != 0 }

// NormalName brings a host name into the form in which the table keeps it: lower case, no final dot. ok is false for what no
// name on the internet looks like: longer than 253 bytes, a label that is empty, longer than 63 bytes or has other characters
// than letters, digits, '-' and '_' (RFC 1035, section 2.3.4; the underscore is not allowed there and widely used), a
// single label, or a last label of digits, which is an address written in some other way.
func NormalName(name string) (normal string, ok bool) {
	name = strings.TrimSuffix(name, ".")
	if len(name) == 0 || len(name) > 253 {
		return "", false
	}
	label, digits, dots := 0, true, 0
	for i := range len(name) {
		switch c := name[i]; {
		case c == '.':
			if label == 0 {
				return "", false
			}
			label, digits = 0, true
			dots++
			continue
		case c >= '0' && c <= '9':
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '-', c == '_':
			digits = false
		default:
			return "", false
		}
		if label++; label > 63 {
			return "", false
		}
	}
	if label == 0 || digits || dots == 0 {
		return "", false
	}
	return strings.ToLower(name), true
}

// nowhere lists the domains that are never looked up on the internet: this host (RFC 6761), names of the local
// link (RFC 6762), of Tor (RFC 7686), and the tree of addresses, of which only PTR is answered.
var nowhere = [...]string{"localhost", "invalid", "local", "onion", "arpa"}

// isNowhere says whether a normal name belongs to one of them.
func isNowhere(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	for _, d := range nowhere {
		if last == d {
			return true
		}
	}
	return name == "localhost.localdomain"
}
