package layout

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
)

// Runtime is the directory of sockets and of what must not outlive the host's
// boot. It is short, because a Unix socket's path is: see [CheckSocket].
type Runtime string

// RuntimeFor is the runtime directory that belongs to a data root: two roots
// never share one. It is below $XDG_RUNTIME_DIR where that is set, absolute and short enough,
// else below the temporary directory, with the user's ID in its name.
func RuntimeFor(root Root, getenv func(string) string, uid int) Runtime {
	sum := sha256.Sum256([]byte(root))
	tag := hex.EncodeToString(sum[:5])
	if dir := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		r := Runtime(filepath.Join(dir, "bromure", tag))
		if CheckSocket(r.longest()) == nil {
			return r
		}
	}
	return Runtime(filepath.Join(shortTemp, "bromure-"+strconv.Itoa(uid)+"-"+tag))
}

// shortTemp is not os.TempDir: $TMPDIR may be long, and the place must be the
// same for every process of the user, whatever its environment.
const shortTemp = "/tmp"

func (r Runtime) ControlSocket() string { return filepath.Join(string(r), "control.sock") }

// Machine is the directory of one running machine; the ID must have been parsed.
func (r Runtime) Machine(id string) MachineDir {
	return MachineDir(filepath.Join(string(r), "m", id[:min(12, len(id))]))
}

// Machines is the parent of every machine's directory.
func (r Runtime) Machines() string { return filepath.Join(string(r), "m") }

func (r Runtime) longest() string { return r.Machine("0123456789ab").NetGuest() }

// MachineDir holds the sockets of one machine and what its boot needs.
type MachineDir string

func (d MachineDir) QMP() string      { return filepath.Join(string(d), "qmp") }
func (d MachineDir) Serial() string   { return filepath.Join(string(d), "serial") }
func (d MachineDir) NetHost() string  { return filepath.Join(string(d), "nh") }
func (d MachineDir) NetGuest() string { return filepath.Join(string(d), "ng") }
func (d MachineDir) Initrd() string   { return filepath.Join(string(d), "initrd") }

// Keys holds the SSH keys of this boot, 0600: what a new daemon needs to adopt the machine.
func (d MachineDir) Keys() string { return filepath.Join(string(d), "keys.json") }

// MaxSocketPath is how many bytes a Unix socket's path may have: sun_path of
// sockaddr_un (unix(7), <sys/un.h>) less the terminating NUL.
func MaxSocketPath() int {
	if runtime.GOOS == "darwin" {
		return 103
	}
	return 107
}

// CheckSocket refuses a path that the kernel would refuse or cut short.
func CheckSocket(path string) error {
	if len(path) > MaxSocketPath() {
		return fmt.Errorf("socket path has %d bytes, the limit is %d: %s", len(path), MaxSocketPath(), path)
	}
	return nil
}

// Ensure makes dir and its missing parents with mode 0700 and checks that it
// is a directory of this user that nobody else may enter: a runtime directory below /tmp
// could have been made by someone else first.
func Ensure(dir string) error {
	if err := os.MkdirAll(dir, DirMode); err != nil {
		return err
	}
	return checkPrivate(dir)
}
