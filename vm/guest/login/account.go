// Package login finds out who a user of the guest is and which environment a login gives: the part of
// login(1), PAM and sshd(8) that a session needs, read from the files in /etc. It
// starts nothing and changes nothing.
//
// The files belong to the guest and may hold anything; every reader here is bounded.
package login

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Dir is where accounts and system-wide settings are.
const Dir = "/etc"

// maxGroups is the kernel's NGROUPS_MAX.
const maxGroups = 65536

// ErrUnknown is returned for a user that passwd(5) does not have.
var ErrUnknown = errors.New("no such user")

// Etc is a directory like /etc: passwd(5), group(5), environment and default/locale in it. What was read is kept as long as the
// files stay the same: asking is a quarter of the price of reading, and in an emulated guest that shows in each command.
type Etc struct {
	dir   string
	now   func() time.Time
	mu    sync.Mutex
	files map[string]file
}

// New returns the settings in a directory, which is [Dir] in a guest.
func New(dir string) *Etc { return &Etc{dir: dir, now: time.Now, files: make(map[string]file)} }

// Account is one user as the files describe it.
type Account struct {
	Name   string
	UID    uint32
	GID    uint32
	Groups []uint32 // supplementary groups with GID among them, as initgroups(3) would set them
	Home   string
	Shell  string
}

// Lookup finds the account of that name.
func (e *Etc) Lookup(name string) (Account, error) {
	a, err := e.passwd(name)
	if err != nil {
		return Account{}, fmt.Errorf("look up user %q: %w", name, err)
	}
	// A guest without a group file still has users.
	a.Groups, err = e.groups(name, a.GID)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return Account{}, fmt.Errorf("look up groups of %q: %w", name, err)
	}
	return a, nil
}

// GroupID is the number of a group, or ok false.
func (e *Etc) GroupID(name string) (gid uint32, ok bool) {
	err := e.lines("group", func(line string) bool {
		f := strings.Split(line, ":")
		if len(f) >= 3 && f[0] == name {
			if n, err := id(f[2]); err == nil {
				gid, ok = n, true
				return false
			}
		}
		return true
	})
	return gid, ok && err == nil
}

func (e *Etc) passwd(name string) (Account, error) {
	var a Account
	found := false
	var bad error
	err := e.lines("passwd", func(line string) bool {
		// name:password:UID:GID:GECOS:directory:shell
		f := strings.Split(line, ":")
		if f[0] != name || len(f) < 7 {
			return true
		}
		uid, err1 := id(f[2])
		gid, err2 := id(f[3])
		if bad = errors.Join(err1, err2); bad != nil {
			return false
		}
		a = Account{Name: name, UID: uid, GID: gid, Home: f[5], Shell: f[6]}
		found = true
		return false
	})
	if err = errors.Join(err, bad); err != nil {
		return Account{}, err
	}
	if !found {
		return Account{}, ErrUnknown
	}
	// passwd(5): an empty shell means /bin/sh.
	if a.Shell == "" {
		a.Shell = "/bin/sh"
	}
	if !strings.HasPrefix(a.Home, "/") {
		a.Home = "/"
	}
	return a, nil
}

func (e *Etc) groups(name string, primary uint32) ([]uint32, error) {
	out := []uint32{primary}
	err := e.lines("group", func(line string) bool {
		// name:password:GID:user,user
		f := strings.Split(line, ":")
		if len(f) < 4 || !slices.Contains(strings.Split(f[3], ","), name) {
			return true
		}
		if gid, err := id(f[2]); err == nil && !slices.Contains(out, gid) {
			out = append(out, gid)
		}
		return len(out) < maxGroups
	})
	return out, err
}

func id(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("user or group number %q: %w", s, errors.Unwrap(err))
	}
	// (uid_t)-1 means "leave it as it is" to setuid(2) and its family.
	if n == 1<<32-1 {
		return 0, fmt.Errorf("user or group number %q: not allowed", s)
	}
	return uint32(n), nil
}
