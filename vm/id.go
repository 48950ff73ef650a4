package vm

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
)

// ID names a workspace for machines: 32 lower-case hex digits, random, never
// reused. It is the only thing about a workspace that becomes a path component.
type ID string

// ShortIDLen is how many digits of an ID are shown to people.
const ShortIDLen = 12

// NewID draws an ID.
func NewID() ID {
	var b [16]byte
	rand.Read(b[:]) // never fails: crypto/rand
	return ID(hex.EncodeToString(b[:]))
}

// ParseID accepts exactly what [NewID] makes.
func ParseID(s string) (ID, error) {
	if len(s) != 32 || !isLowerHex(s) {
		return "", fmt.Errorf("not a workspace ID: %q", s)
	}
	return ID(s), nil
}

// Short is the form for people.
func (id ID) Short() string { return string(id[:min(ShortIDLen, len(id))]) }

// UUID is the ID in the form of RFC 9562, section 4, which hypervisors take.
func (id ID) UUID() string {
	s := string(id)
	if len(s) != 32 {
		return s // not an ID; whoever takes UUIDs refuses it
	}
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

func isLowerHex(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return s != ""
}
