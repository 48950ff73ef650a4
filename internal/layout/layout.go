// Package layout knows the name and place of every file that the program
// keeps: nothing else spells a path. It opens no file. docs/data-on-disk.md is
// the same list for people.
package layout

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
)

// File names below the root, a workspace and an image. See docs/data-on-disk.md.
const (
	DirMode  = 0o700
	FileMode = 0o600
	BaseMode = 0o444
)

// Root is the data root: everything durable is below it.
type Root string

// DefaultRoot is $BROMURE_HOME, else the platform's place for user data:
// $XDG_DATA_HOME/bromure or ~/.local/share/bromure on Linux,
// ~/Library/Application Support/Bromure TUI on macOS. The result is absolute.
func DefaultRoot(getenv func(string) string) (Root, error) {
	if p := getenv("BROMURE_HOME"); p != "" {
		abs, err := filepath.Abs(p)
		return Root(abs), err
	}
	home := getenv("HOME")
	if runtime.GOOS == "darwin" {
		if home == "" {
			return "", errors.New("neither BROMURE_HOME nor HOME is set")
		}
		return Root(filepath.Join(home, "Library", "Application Support", "Bromure TUI")), nil
	}
	// The XDG base directory specification: a relative value is to be ignored.
	if p := getenv("XDG_DATA_HOME"); filepath.IsAbs(p) {
		return Root(filepath.Join(p, "bromure")), nil
	}
	if home == "" {
		return "", errors.New("none of BROMURE_HOME, XDG_DATA_HOME and HOME is set")
	}
	if !filepath.IsAbs(home) {
		return "", fmt.Errorf("HOME is not an absolute path: %q", home)
	}
	return Root(filepath.Join(home, ".local", "share", "bromure")), nil
}

func (r Root) join(elem ...string) string {
	return filepath.Join(append([]string{string(r)}, elem...)...)
}

func (r Root) DaemonLock() string { return r.join("daemon.lock") }

// Endpoint says where the daemon of this root listens; see internal/control.
func (r Root) Endpoint() string { return r.join("endpoint.json") }

func (r Root) MACs() string       { return r.join("macs.json") }
func (r Root) Settings() string   { return r.join("settings.json") }
func (r Root) Logs() string       { return r.join("logs") }
func (r Root) DaemonLog() string  { return r.join("logs", "daemon.log") }
func (r Root) Trash() string      { return r.join("trash") }
func (r Root) Workspaces() string { return r.join("workspaces") }
func (r Root) Images() string     { return r.join("images") }

// AccelCache holds the answer of the accelerator probe.
func (r Root) AccelCache() string { return r.join("accelerator.json") }

// WorkspacesLock is held for the moment in which a workspace is made, renamed or changed, or its MAC
// is reserved or released: names and addresses are unique in a root.
func (r Root) WorkspacesLock() string { return r.join("workspaces", ".lock") }

// NewWorkspace is where a workspace is put together before it gets its name; what stays there is
// the rest of a crash.
func (r Root) NewWorkspace(id string) WorkspaceDir {
	return WorkspaceDir(r.join("workspaces", NewWorkspacePrefix+id))
}

// NewWorkspacePrefix begins the names of [Root.NewWorkspace].
const NewWorkspacePrefix = ".new-"

// Workspace is the directory of the workspace with that ID. The ID must have
// been parsed (vm.ParseID): it is a path component here.
func (r Root) Workspace(id string) WorkspaceDir { return WorkspaceDir(r.join("workspaces", id)) }

// Image is the directory of the image with that reference.
func (r Root) Image(ref string) ImageDir { return ImageDir(r.join("images", ref)) }

// WorkspaceDir is workspaces/<id>: everything that belongs to one workspace.
type WorkspaceDir string

func (d WorkspaceDir) join(name ...string) string {
	return filepath.Join(append([]string{string(d)}, name...)...)
}

func (d WorkspaceDir) Lock() string        { return d.join("lock") }
func (d WorkspaceDir) Config() string      { return d.join("workspace.json") }
func (d WorkspaceDir) Disk() string        { return d.join("disk.img") }
func (d WorkspaceDir) Home() string        { return d.join("home.img") }
func (d WorkspaceDir) State() string       { return d.join("state.json") }
func (d WorkspaceDir) Names() string       { return d.join("names.json") }
func (d WorkspaceDir) Compromised() string { return d.join("compromised.json") }
func (d WorkspaceDir) Logs() string        { return d.join("logs") }
func (d WorkspaceDir) Secrets() string     { return d.join("secrets.enc") }
func (d WorkspaceDir) Incidents() string   { return d.join("incidents.jsonl") }
func (d WorkspaceDir) SavedRAM() string    { return d.join("vm.state") }
func (d WorkspaceDir) Checkpoints() string { return d.join("checkpoints") }
func (d WorkspaceDir) SSH() string         { return d.join("ssh") }
func (d WorkspaceDir) Browser() string     { return d.join("browser") }
func (d WorkspaceDir) Traces() string      { return d.join("traces") }

// Checkpoint is the directory of the checkpoint of that name, which must have been parsed.
func (d WorkspaceDir) Checkpoint(name string) CheckpointDir {
	return CheckpointDir(d.join("checkpoints", name))
}

// GeneratedKey is the private key that was made for this workspace; its public half is beside it.
// What else is in the directory was imported.
func (d WorkspaceDir) GeneratedKey() string       { return d.join("ssh", "id_ed25519") }
func (d WorkspaceDir) GeneratedPublicKey() string { return d.join("ssh", "id_ed25519.pub") }

// LogKind names one of a workspace's log rings.
type LogKind string

const (
	SerialLog   LogKind = "serial"   // what the guest's kernel and console print
	GuestLog    LogKind = "guest"    // what bromure-guest reports
	RefusalsLog LogKind = "refusals" // outbound connections that were refused, one JSON object a line
	MachineLog  LogKind = "machine"  // what the hypervisor's process prints
)

// LogKinds lists every kind, in the order in which help names them.
var LogKinds = []LogKind{SerialLog, GuestLog, RefusalsLog, MachineLog}

// Log is the ring of that kind.
func (d WorkspaceDir) Log(k LogKind) string { return d.join("logs", string(k)+".log") }

// CheckpointDir is checkpoints/<name> of a workspace: copies of both disks from one instant.
type CheckpointDir string

func (d CheckpointDir) Disk() string     { return filepath.Join(string(d), "disk.img") }
func (d CheckpointDir) Home() string     { return filepath.Join(string(d), "home.img") }
func (d CheckpointDir) Manifest() string { return filepath.Join(string(d), "manifest.json") }

// ImageDir is images/<ref>: one base image and what boots it.
type ImageDir string

func (d ImageDir) Base() string     { return filepath.Join(string(d), "base.img") }
func (d ImageDir) Kernel() string   { return filepath.Join(string(d), "kernel") }
func (d ImageDir) Initrd() string   { return filepath.Join(string(d), "initrd.img") }
func (d ImageDir) Manifest() string { return filepath.Join(string(d), "manifest.json") }

// Names in the directory of images that are no image: a build holds BuildLock (flock) while it works in a
// directory that begins with BuildPrefix, and what is left of one when nobody holds the lock is a dead build's.
const (
	BuildLock   = ".build.lock"
	BuildPrefix = ".build-"
)
