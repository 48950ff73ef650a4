package initd

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path"
	"strings"

	"bromure.io/tui/vm/guest"
)

// maxBootFile bounds [guest.BootFile], in bytes.
const maxBootFile = 1 << 20

// maxOrderFile bounds [guest.ModulesOrder], in bytes.
const maxOrderFile = 64 << 10

// parseBoot reads the file of one boot and checks that what its mode needs is there. A field that is
// not known is none of ours: a newer host may know more.
func parseBoot(b []byte) (guest.Boot, error) {
	var boot guest.Boot
	if err := json.Unmarshal(b, &boot); err != nil {
		return boot, fmt.Errorf("read the boot file: %w", err)
	}
	switch boot.Mode {
	case guest.Probe:
		return boot, nil
	case guest.Workspace:
	default:
		return boot, fmt.Errorf("read the boot file: mode %q is not known", boot.Mode)
	}
	if boot.Version != guest.Version {
		return boot, fmt.Errorf("read the boot file: version %d, this program has %d", boot.Version, guest.Version)
	}
	if boot.Hostname != guest.Hostname(boot.Hostname) {
		return boot, fmt.Errorf("read the boot file: %q is not a host name", boot.Hostname)
	}
	if boot.DiskSerial == "" || boot.DiskSerial == boot.HomeSerial {
		return boot, errors.New("read the boot file: the serial of the root disk is missing, or home has the same")
	}
	if boot.HostKey == "" || boot.ClientKey == "" {
		return boot, errors.New("read the boot file: a key is missing")
	}
	if _, err := parseNetwork(boot); err != nil {
		return boot, fmt.Errorf("read the boot file: %w", err)
	}
	return boot, nil
}

// network is the part of the boot file that is about the card.
type network struct {
	mac     net.HardwareAddr
	prefix  netip.Prefix // with the address itself
	gateway netip.Addr
	mtu     int // 0: leave as it is
}

func parseNetwork(boot guest.Boot) (network, error) {
	addr, err := netip.ParseAddr(boot.Address)
	if err != nil || !addr.Is4() || boot.PrefixLen < 1 || boot.PrefixLen > 32 {
		return network{}, fmt.Errorf("network: %q/%d is not an IPv4 address", boot.Address, boot.PrefixLen)
	}
	gateway, err := netip.ParseAddr(boot.Gateway)
	if err != nil || !gateway.Is4() {
		return network{}, fmt.Errorf("network: the gateway %q is not an IPv4 address", boot.Gateway)
	}
	mac, err := net.ParseMAC(boot.NIC)
	if err != nil || len(mac) != 6 {
		return network{}, fmt.Errorf("network: %q is not the address of a card", boot.NIC)
	}
	// 68 is the least that IPv4 works with (RFC 791).
	if boot.GuestMTU != 0 && (boot.GuestMTU < 68 || boot.GuestMTU > 65535) {
		return network{}, fmt.Errorf("network: an MTU of %d", boot.GuestMTU)
	}
	return network{mac, netip.PrefixFrom(addr, boot.PrefixLen), gateway, boot.GuestMTU}, nil
}

// parseOrder reads [guest.ModulesOrder]: a path per line, relative to its own directory. Blank lines and lines that
// begin with "#" are skipped.
func parseOrder(b []byte) ([]string, error) {
	var out []string
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if line != path.Clean(line) || path.IsAbs(line) || line == ".." || strings.HasPrefix(line, "../") {
			return nil, fmt.Errorf("the list of modules names %q", line)
		}
		out = append(out, line)
	}
	return out, nil
}
