package link

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/crypto/ssh"

	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm/guest"
)

func TestWrongKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		keys, other := mustKeys(t), mustKeys(t)
		nothing := func(conn *ssh.ServerConn, _ <-chan ssh.NewChannel, _ <-chan *ssh.Request) { conn.Close() }
		_, err := meet(t, keys, other, nothing)
		if !errors.Is(err, ErrHostKey) || problem.KindOf(err) != problem.Unverified || problem.HintOf(err) == "" {
			t.Errorf("another host key: %v", err)
		}
		mixed := Keys{func() pair {
			p := keys.pair()
			p.client = other.pair().client
			return p
		}}
		if _, err := meet(t, keys, mixed, nothing); !errors.Is(err, ErrLogin) {
			t.Errorf("another client key: %v", err)
		}
		if _, err := Dial(t.Context(), nil, Keys{}, guest.User); err == nil {
			t.Error("dialled without keys")
		}
		// Await gives up on a wrong key, and only on that, before its time.
		tries := 0
		dial := func(context.Context) (net.Conn, error) {
			tries++
			if tries < 4 {
				return nil, errors.New("not yet")
			}
			ours, guests := memPipe()
			cfg := &ssh.ServerConfig{NoClientAuth: true}
			cfg.AddHostKey(other.pair().host)
			go func() { _, _, _, _ = ssh.NewServerConn(guests, cfg); guests.Close() }()
			return ours, nil
		}
		if _, err := Await(t.Context(), dial, keys, guest.User); !errors.Is(err, ErrHostKey) || tries != 4 {
			t.Errorf("await: %v after %d tries", err, tries)
		}
	})
}

func TestKeysAreHidden(t *testing.T) {
	k := mustKeys(t)
	b, err := json.Marshal(k)
	if err != nil {
		t.Fatal(err)
	}
	var back Keys
	if err := json.Unmarshal(b, &back); err != nil || back.HostKey() != k.HostKey() || back.Authorized() != k.Authorized() || back.ClientKey() != k.ClientKey() {
		t.Errorf("keys do not survive JSON: %v", err)
	}
	type outer struct {
		Keys   Keys
		hidden Keys
		ptr    *Keys
	}
	o := outer{k, k, &k}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for _, v := range []any{k, &k, o, &o, []Keys{k}, map[string]Keys{"a": k}} {
			if s := fmt.Sprintf(verb, v); strings.Contains(s, "PRIVATE") || strings.Contains(s, "LS0tLS1") || len(s) > 500 {
				t.Errorf("%s of %T prints %.300s", verb, v, s)
			}
		}
	}
	for _, bad := range []string{`{"host_key":"x","client_key":"y"}`, `{"host_key":"` + "-----BEGIN" + `"}`, `[]`, `7`} {
		err := json.Unmarshal([]byte(bad), &back)
		if err == nil {
			t.Errorf("%s was read", bad)
		}
	}
	if err := json.Unmarshal([]byte(`{}`), &back); err != nil || !back.IsZero() || back.HostKey() != "" {
		t.Errorf("no keys: %v", err)
	}
	if b, err := json.Marshal(Keys{}); err != nil || string(b) != `{"host_key":"","client_key":""}` {
		t.Errorf("no keys as JSON: %s, %v", b, err)
	}
	if !strings.HasPrefix(k.KnownHost("h"), "h ssh-ed25519 ") {
		t.Error(k.KnownHost("h"))
	}
}
