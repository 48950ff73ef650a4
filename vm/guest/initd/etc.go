package initd

import (
	"net/netip"
	"path"
	"strings"
	"time"
)

// marker ends the lines in /etc that this program looks after. What does not carry it is the user's.
const marker = "# bromure"

// mergeHosts returns /etc/hosts with a line that resolves the host name, so that sudo and others who look up their own
// name get an address of this machine. changed is false when nothing has to be written.
func mergeHosts(old, hostname string) (text string, changed bool) {
	want := "127.0.1.1\t" + hostname + " " + marker // Debian's address for a host without a fixed one
	var out []string
	named := false
	for line := range strings.Lines(old) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasSuffix(line, " "+marker) {
			continue
		}
		out = append(out, line)
		entry, _, _ := strings.Cut(line, "#")
		f := strings.Fields(entry)
		for i, name := range f {
			named = named || i > 0 && strings.EqualFold(name, hostname)
		}
	}
	if strings.TrimSpace(old) == "" {
		out = append(out, "127.0.0.1\tlocalhost")
	}
	if !named {
		out = append(out, want)
	}
	text = strings.Join(out, "\n") + "\n"
	return text, text != old
}

// mergeResolv returns /etc/resolv.conf with the gateway as the name server. One that the user wrote stays: it has a name
// server and does not carry our marker.
func mergeResolv(old string, gateway netip.Addr) (text string, changed bool) {
	ours, served := false, false
	for line := range strings.Lines(old) {
		line = strings.TrimSpace(line)
		ours = ours || line == marker
		served = served || strings.HasPrefix(line, "nameserver ") || strings.HasPrefix(line, "nameserver\t")
	}
	if served && !ours {
		return old, false
	}
	text = marker + "\nnameserver " + gateway.String() + "\n"
	return text, text != old
}

// zoneDir is where the time zones are, as /etc/localtime links to them.
const zoneDir = "/usr/share/zoneinfo"

// zoneFile is the file of an IANA time zone, or "" for a name that cannot be one.
func zoneFile(name string) string {
	if name == "" || len(name) > 64 || name != path.Clean(name) || path.IsAbs(name) || strings.HasPrefix(name, ".") {
		return ""
	}
	for _, r := range name {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("/_+-", r):
		default:
			return ""
		}
	}
	return path.Join(zoneDir, name)
}

// clockBehind says whether the clock has to be set to what the boot file says. That time has passed for certain, so a clock
// that shows an earlier one is wrong; a later one may be right: a guest that reboots by itself gets the same file again. The
// host sets it exactly as soon as it can talk to the guest.
func clockBehind(clock, boot time.Time) bool {
	return !boot.IsZero() && boot.Sub(clock) > time.Second
}
