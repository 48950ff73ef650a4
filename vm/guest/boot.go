// Package guest has the words that the host and the program in the VM (bromure-guest) share: what
// is handed over at a boot, the calls over SSH, and the lines on the serial console. It is pure and
// imports nothing of ours. docs/guest-channel.md describes the same for people.
//
// Everything that comes from a guest is hostile: parsers here bound and check it.
package guest

import "time"

// Version of the words in this package. The guest program travels with the host's at each boot,
// so the two differ only while a machine outlives an upgrade of the daemon.
const Version = 1

// The private segment of every workspace. Segments of two workspaces are not connected, so all
// have the same addresses.
const (
	GuestAddress   = "192.168.127.2"
	GatewayAddress = "192.168.127.1"
	PrefixLength   = 24
	MTU            = 65520 // what the virtio NIC announces as host_mtu
	GatewayMAC     = "02:00:00:00:00:01"
	SSHPort        = 22
	Interface      = "eth0"
)

// User is who a shell in the guest belongs to.
const (
	User    = "ubuntu"
	UserID  = 1000
	HomeDir = "/home/ubuntu"
)

// BootFile is where the boot archive puts [Boot] as JSON, mode 0600, in the initramfs; the
// guest removes it as soon as it has read it.
const BootFile = "/bromure/boot.json"

// ModulesOrder is the file in the initramfs that lists kernel modules, a path relative to its own
// directory per line, in the order in which they are to be loaded.
const ModulesOrder = "/bromure/modules/order"

// InitPath is where the boot archive puts the guest program.
const InitPath = "/init"

// Mode is what the guest program does after the kernel has started it.
type Mode string

const (
	// Workspace: bring the system up, serve SSH, hand over to the distribution's init.
	Workspace Mode = "workspace"
	// Probe: print [ProbeMarker] on the console and power off. It needs no disk and no network.
	Probe Mode = "probe"
)

// ProbeMarker is the line by which a probed machine proves that it reached 64-bit user space.
const ProbeMarker = "BROMURE-PROBE-OK"

// Boot is what the host hands to the guest at one boot.
type Boot struct {
	Version  int       `json:"version"`
	Mode     Mode      `json:"mode"`
	Hostname string    `json:"hostname"` // made by [Hostname], safe as it is
	Now      time.Time `json:"now"`      // the host's clock when the archive was made

	DiskSerial string `json:"disk_serial,omitempty"` // virtio-blk serial of the root disk
	HomeSerial string `json:"home_serial,omitempty"` // empty: home is part of the root disk

	Address   string `json:"address,omitempty"` // of the NIC, IPv4
	PrefixLen int    `json:"prefix_len,omitempty"`
	Gateway   string `json:"gateway,omitempty"`    // also the name server
	GuestMTU  int    `json:"mtu,omitempty"`        // 0: as the device says
	NIC       string `json:"nic_mac,omitempty"`    // which card, by its address
	HostKey   string `json:"host_key,omitempty"`   // OpenSSH private key (PEM) of the guest's SSH server, made for this boot
	ClientKey string `json:"client_key,omitempty"` // authorized_keys line of the only key that may log in

	Timezone string            `json:"timezone,omitempty"` // IANA name; empty: leave as it is
	Env      map[string]string `json:"env,omitempty"`      // added to the environment of every session
}

// Hostname makes a host name out of a workspace's name: a to z, 0 to 9 and dashes, at most 32
// characters (RFC 1123, section 2.1). What has no such character becomes "workspace".
func Hostname(name string) string {
	out := make([]byte, 0, 32)
	for _, r := range name {
		switch {
		case r >= 'A' && r <= 'Z':
			r += 'a' - 'A'
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
		default:
			r = '-'
		}
		if r == '-' && (len(out) == 0 || out[len(out)-1] == '-') {
			continue
		}
		if len(out) == 32 {
			break
		}
		out = append(out, byte(r))
	}
	for len(out) > 0 && out[len(out)-1] == '-' {
		out = out[:len(out)-1]
	}
	if len(out) == 0 {
		return "workspace"
	}
	return string(out)
}
