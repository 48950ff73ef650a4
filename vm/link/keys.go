package link

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Keys are the two key pairs of one boot: the guest proves with the host key that it is this boot's, we prove with the client key
// that we may log in. Both are made by [NewKeys] and die with the boot.
//
// The private halves are kept behind a function, so that no way of printing a value shows them. Only
// [Keys.HostKey], [Keys.ClientKey] and JSON (for the runtime directory, mode 0600) give them out.
type Keys struct {
	pair func() pair
}

type pair struct {
	hostPEM, clientPEM string // OpenSSH private keys
	host, client       ssh.Signer
}

// NewKeys makes the keys of a boot.
func NewKeys() (Keys, error) {
	var p pair
	var err error
	if p.hostPEM, p.host, err = newKey("host"); err != nil {
		return Keys{}, err
	}
	if p.clientPEM, p.client, err = newKey("client"); err != nil {
		return Keys{}, err
	}
	return Keys{func() pair { return p }}, nil
}

func newKey(what string) (string, ssh.Signer, error) {
	_, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", nil, fmt.Errorf("make the %s key of a boot: %w", what, err)
	}
	block, err := ssh.MarshalPrivateKey(priv, "bromure "+what)
	if err != nil {
		return "", nil, fmt.Errorf("make the %s key of a boot: %w", what, err)
	}
	signer, err := ssh.NewSignerFromKey(priv)
	if err != nil {
		return "", nil, fmt.Errorf("make the %s key of a boot: %w", what, err)
	}
	return string(pem.EncodeToMemory(block)), signer, nil
}

// IsZero reports whether there are no keys.
func (k Keys) IsZero() bool { return k.pair == nil }

// HostKey is the private host key as PEM, for guest.Boot.HostKey; empty for no keys.
func (k Keys) HostKey() string {
	if k.IsZero() {
		return ""
	}
	return k.pair().hostPEM
}

// ClientKey is the private client key as PEM, for standard clients; empty for no keys.
func (k Keys) ClientKey() string {
	if k.IsZero() {
		return ""
	}
	return k.pair().clientPEM
}

// Authorized is the public client key as an authorized_keys line, for guest.Boot.ClientKey; empty for no keys.
func (k Keys) Authorized() string {
	if k.IsZero() {
		return ""
	}
	return strings.TrimSuffix(string(ssh.MarshalAuthorizedKey(k.pair().client.PublicKey())), "\n")
}

// KnownHost is the public host key as a known_hosts line for host, for standard clients; empty for no keys.
func (k Keys) KnownHost(host string) string {
	if k.IsZero() {
		return ""
	}
	return host + " " + strings.TrimSuffix(string(ssh.MarshalAuthorizedKey(k.pair().host.PublicKey())), "\n")
}

// keysJSON is the form on disk.
type keysJSON struct {
	Host   string `json:"host_key"`
	Client string `json:"client_key"`
}

// MarshalJSON gives the private keys out.
func (k Keys) MarshalJSON() ([]byte, error) {
	return json.Marshal(keysJSON{k.HostKey(), k.ClientKey()})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (k *Keys) UnmarshalJSON(b []byte) error {
	var j keysJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return errors.New("keys of a boot: not in the form that was written")
	}
	if j == (keysJSON{}) {
		*k = Keys{}
		return nil
	}
	host, err1 := ssh.ParsePrivateKey([]byte(j.Host))
	client, err2 := ssh.ParsePrivateKey([]byte(j.Client))
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("keys of a boot: %w", err)
	}
	p := pair{j.Host, j.Client, host, client}
	*k = Keys{func() pair { return p }}
	return nil
}

const keysText = "link.Keys(hidden)"

// String, GoString, Format and LogValue hide the keys.
func (k Keys) String() string             { return keysText }
func (k Keys) GoString() string           { return keysText }
func (k Keys) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, keysText) }
func (k Keys) LogValue() slog.Value       { return slog.StringValue(keysText) }
