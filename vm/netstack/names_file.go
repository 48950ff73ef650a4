package netstack

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
)

const namesVersion = 1

// maxNamesFile bounds what Load looks at, in bytes: the longest table has 15.5 MB.
const maxNamesFile = 20 << 20

// namesFile is a table at rest. Names come in the order in which they were last asked for, oldest first.
type namesFile struct {
	Version int          `json:"version"`
	Names   []namesEntry `json:"names"`
	Spent   []byte       `json:"spent,omitempty"` // bit i%8 of byte i/8: address i of the range was given out since the machine was started; trailing zeroes are left out
}

type namesEntry struct {
	Name string     `json:"name"`
	Addr netip.Addr `json:"addr"`
}

// Marshal is the table in the form that [Names.Load] reads.
func (n *Names) Marshal() ([]byte, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.marshal()
}

func (n *Names) marshal() ([]byte, error) {
	f := namesFile{Version: namesVersion, Names: make([]namesEntry, 0, n.recent.Len())}
	for e := n.recent.Back(); e != nil; e = e.Prev() {
		entry := e.Value.(*nameEntry)
		f.Names = append(f.Names, namesEntry{entry.name, fromOffset(entry.addr)})
	}
	end := len(n.spent)
	for end > 0 && n.spent[end-1] == 0 {
		end--
	}
	f.Spent = n.spent[:end]
	return json.Marshal(f)
}

// Load replaces the content of the table by what [Names.Marshal] wrote. Damaged data is an error and leaves the
// table as it was: whoever wants to go on with that decides it. Call [Names.NewBoot] afterwards, unless the machine that it was
// written for still runs.
func (n *Names) Load(data []byte) error {
	read := newNames(n.limit)
	if err := read.parse(data); err != nil {
		return fmt.Errorf("load table of names: %w", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.byName, n.byAddr, n.recent = read.byName, read.byAddr, read.recent
	n.spent, n.aside, n.cursor = read.spent, nil, 0
	return nil
}

func (n *Names) parse(data []byte) error {
	if len(data) > maxNamesFile {
		return errors.New("too long")
	}
	var f namesFile
	if err := json.Unmarshal(data, &f); err != nil {
		return err
	}
	if f.Version != namesVersion {
		return fmt.Errorf("version %d is not known", f.Version)
	}
	if len(f.Names) > DefaultNames || len(f.Spent) > len(n.spent) {
		return errors.New("more entries than a table has")
	}
	for _, e := range f.Names {
		off, ok := toOffset(e.Addr)
		normal, valid := NormalName(e.Name)
		switch {
		case !ok || !usable(off):
			return fmt.Errorf("%q has the address %s", e.Name, e.Addr)
		case !valid || normal != e.Name:
			return fmt.Errorf("not a name: %q", e.Name)
		case n.byName[e.Name] != nil:
			return fmt.Errorf("%q has two addresses", e.Name)
		case n.byAddr[off] != nil:
			return fmt.Errorf("%s has two names", e.Addr)
		}
		n.enter(e.Name, off)
	}
	copy(n.spent[:], f.Spent)
	for n.recent.Len() > n.limit {
		n.evict() // the limit was larger once
	}
	return nil
}
