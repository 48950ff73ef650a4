package cli

import (
	"fmt"
	"strings"
)

const defaultDetachKeys = "ctrl-p,ctrl-q"

// parseDetachKeys reads keys as Docker writes them: "ctrl-p,ctrl-q", "ctrl-]", "a,b"; "" is none.
func parseDetachKeys(s string) ([]byte, error) {
	if s == "" {
		return nil, nil
	}
	var keys []byte
	for _, k := range strings.Split(s, ",") {
		name, ctrl := strings.CutPrefix(k, "ctrl-")
		switch {
		case len(name) != 1:
			return nil, fmt.Errorf("not a key: %q", k)
		case !ctrl && name[0] > ' ' && name[0] < 0x7f:
			keys = append(keys, name[0])
		case ctrl && (name[0] >= 'a' && name[0] <= 'z' || strings.Contains(`@[\]^_`, name)):
			keys = append(keys, name[0]&0x1f)
		default:
			return nil, fmt.Errorf("not a key: %q", k)
		}
	}
	return keys, nil
}

// detacher finds the detach keys in what is typed, also when they arrive one by one.
type detacher struct {
	keys []byte
	held int // how many of them have been seen and not passed on
}

// feed returns what is to be passed on. After detached nothing is.
func (d *detacher) feed(in []byte) (out []byte, detached bool) {
	if len(d.keys) == 0 {
		return in, false
	}
	for _, b := range in {
		if b == d.keys[d.held] {
			if d.held++; d.held == len(d.keys) {
				d.held = 0
				return out, true
			}
			continue
		}
		// What was held was not the beginning of it, but its end together with b may be.
		pending := append([]byte(nil), d.keys[:d.held]...)
		pending = append(pending, b)
		d.held = 0
		for len(pending) > 0 && !strings.HasPrefix(string(d.keys), string(pending)) {
			out = append(out, pending[0])
			pending = pending[1:]
		}
		d.held = len(pending)
	}
	return out, false
}

// flush returns what is held: the next key did not come in time.
func (d *detacher) flush() []byte {
	out := append([]byte(nil), d.keys[:d.held]...)
	d.held = 0
	return out
}
