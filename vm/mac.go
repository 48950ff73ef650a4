package vm

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
)

// MAC is the Ethernet address of a workspace's only NIC, in lower-case colon form. It is
// locally administered and unicast (IEEE 802, the two low bits of the first byte are 10).
type MAC string

// NewMAC draws an address. Whether it is taken is for the reservation to say.
func NewMAC() MAC {
	var b [6]byte
	rand.Read(b[:]) // never fails: crypto/rand
	b[0] = 0x02
	return formatMAC(b)
}

// Check says whether the address is a locally administered unicast one.
func (m MAC) Check() error {
	raw, err := hex.DecodeString(strings.ReplaceAll(string(m), ":", ""))
	if err != nil || len(raw) != 6 || formatMAC([6]byte(raw)) != m || raw[0]&3 != 2 {
		return fmt.Errorf("not a locally administered MAC address: %q", string(m))
	}
	return nil
}

func formatMAC(b [6]byte) MAC {
	return MAC(fmt.Sprintf("%02x:%02x:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3], b[4], b[5]))
}
