package vm

import (
	"crypto/rand"
	"fmt"
	"net"
)

// MAC is the Ethernet address of a workspace's only NIC, in lower-case colon form. It is
// locally administered and unicast (IEEE 802, the two low bits of the first byte are 10).
type MAC string

// NewMAC draws an address. Whether it is taken is for the reservation to say.
func NewMAC() MAC {
	var b [6]byte
	rand.Read(b[:])
	b[0] = 0x02
	return MAC(net.HardwareAddr(b[:]).String())
}

// Check says whether the address is a locally administered unicast one.
func (m MAC) Check() error {
	hw, err := net.ParseMAC(string(m))
	if err != nil || len(hw) != 6 || hw.String() != string(m) || hw[0]&3 != 2 {
		return fmt.Errorf("not a locally administered MAC address: %q", string(m))
	}
	return nil
}
