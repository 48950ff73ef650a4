package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"bromure.io/tui/vm/guest"
)

// canary is a listener on the host's loopback that no guest may ever reach.
func canary(t *testing.T) (port int, hits *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	hits = new(atomic.Int32)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			hits.Add(1)
			c.Close()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port, hits
}

// TestClosedNetwork: names get synthetic addresses, every connection out is refused at once and
// written down with its reason, and neither the host nor another workspace is on the wire.
func TestClosedNetwork(t *testing.T) {
	i := newInstall(t)
	for _, ws := range []string{"a", "b"} {
		i.ok("workspaces", "create", "--name", ws, "--memory", "0.5")
		i.ok("vm", "run", "-d", ws)
	}
	port, hits := canary(t)

	addr, _, _ := strings.Cut(i.sh("a", "getent ahostsv4 api.example.com"), " ")
	ip := net.ParseIP(addr)
	_, pool, _ := net.ParseCIDR("198.18.0.0/15")
	if ip == nil || !pool.Contains(ip) {
		t.Errorf("api.example.com is %q, not a synthetic address", addr)
	}
	if again, _, _ := strings.Cut(i.sh("a", "getent ahostsv4 API.EXAMPLE.COM."), " "); again != addr {
		t.Errorf("the same name has the addresses %s and %s", addr, again)
	}
	if back := i.sh("a", "getent hosts "+addr); !strings.Contains(back, "api.example.com") {
		t.Errorf("reverse of %s: %q", addr, back)
	}

	// curl's exit code 7 is "failed to connect": refused, not timed out (28).
	targets := []string{
		"http://api.example.com/", "https://api.example.com/",
		fmt.Sprintf("http://127.0.0.1:%d/", port), // the guest's own loopback: nobody there
		fmt.Sprintf("http://%s:%d/", guest.GatewayAddress, port),
		fmt.Sprintf("http://10.0.0.1:%d/", port), "http://192.168.1.1/", "http://169.254.169.254/latest/meta-data/",
		fmt.Sprintf("http://%s:%d/", hostAddress(t), port),
	}
	for _, url := range targets {
		if got := i.sh("a", "curl -sS -m 20 -o /dev/null "+url+" 2>&1 || echo code=$?"); !strings.Contains(got, "code=7") {
			t.Errorf("curl %s: %q", url, got)
		}
	}
	if n := hits.Load(); n != 0 {
		t.Errorf("%d connections reached the host's loopback", n)
	}

	// The log says who was refused, by name, and why.
	found := false
	for line := range strings.Lines(i.ok("vm", "logs", "--kind", "refusals", "a")) {
		var r struct{ Name, Reason string }
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("refusal %q: %v", line, err)
		}
		if r.Reason == "" {
			t.Errorf("a refusal without a reason: %s", line)
		}
		found = found || r.Name == "api.example.com"
	}
	if !found {
		t.Error("the refusal of api.example.com is not in the log")
	}
	if w := i.describe("a"); w.Refused == 0 {
		t.Error("describe counts no refusals")
	}

	// Both guests have the same address; what one listens on, the other does not see.
	i.sh("b", "setsid -f python3 -m http.server 8080 >/dev/null 2>&1 || setsid -f perl -MIO::Socket::INET -e 'my $s=IO::Socket::INET->new(LocalPort=>8080,Listen=>5,ReuseAddr=>1) or die; while(my $c=$s->accept){close $c}' >/dev/null 2>&1")
	for _, to := range []string{guest.GuestAddress, "192.168.127.3"} {
		if got := i.sh("a", "curl -sS -m 20 -o /dev/null http://"+to+":8080/ 2>&1 || echo code=$?"); !strings.Contains(got, "code=7") {
			t.Errorf("from a to %s: %q", to, got)
		}
	}
}

// hostAddress is an address of this host other than loopback, or a documentation address when it has none.
func hostAddress(t *testing.T) string {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			return n.IP.String()
		}
	}
	return "192.0.2.1"
}
