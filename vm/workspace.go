// Package vm has the words of the machine domain: workspaces, states, specs and the interface
// of a backend. It is pure: no sockets, no processes, no files. The machinery is in the folders
// below it (store, disk, qemu, netstack, link). Read workspace.go first, then backend.go.
package vm

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"bromure.io/tui/images"
)

// ConfigVersion is the version of workspace.json that this program writes. A file with a
// greater version is refused, never rewritten.
const ConfigVersion = 1

// DiskFormat is how disk.img is stored. It is recorded and never probed: a guest
// controls the first bytes of a raw disk and could make it look like another format.
type DiskFormat string

const (
	Raw   DiskFormat = "raw"
	QCOW2 DiskFormat = "qcow2" // an overlay on the image's base.img
)

// Workspace is the content of workspace.json: all that a workspace is, except
// its disks, its secrets and its state.
type Workspace struct {
	Version   int       `json:"version"`
	ID        ID        `json:"id"`
	Name      Name      `json:"name"`
	MAC       MAC       `json:"mac"`
	CPUs      int       `json:"cpus"`
	MemoryMiB int       `json:"memory_mib"`
	HomeMiB   int64     `json:"home_mib"` // apparent size of home.img
	Created   time.Time `json:"created"`
	LastUsed  time.Time `json:"last_used,omitzero"`
	Color     string    `json:"color,omitempty"`
	Notes     string    `json:"notes,omitempty"`

	// Throwaway is set for a workspace that is deleted when its machine stops.
	Throwaway Throwaway `json:"throwaway,omitempty"`

	// Set at the first start, when disk.img is made.
	Image      string     `json:"image,omitempty"`       // reference of the base image that disk.img was cloned from
	DiskFormat DiskFormat `json:"disk_format,omitempty"` //
	CloneKind  string     `json:"clone_kind,omitempty"`  // how disk.img was made, as vm/disk reports it

	// Extra keeps the fields that this version does not know, so that a rewrite loses nothing.
	Extra map[string]json.RawMessage `json:"-"`
}

// Throwaway says what ends a workspace that is deleted when its machine stops; empty: it is kept.
type Throwaway string

const (
	// Attached: it ends with the front that made it, too.
	Attached Throwaway = "attached"
	// Detached: its machine runs on without the front.
	Detached Throwaway = "detached"
)

// Limits and defaults of a machine.
const (
	DefaultCPUs      = 2
	DefaultMemoryMiB = 4096
	DefaultHomeMiB   = 64 * 1024
	MinMemoryMiB     = 256
	MaxMemoryMiB     = 1024 * 1024
	MaxCPUs          = 256
	MinHomeMiB       = 16              // below it mke2fs leaves no room for files
	MaxHomeMiB       = 8 * 1024 * 1024 // ext4 with blocks of 4 KiB ends at 16 TiB
	MaxNotes         = 64 << 10        // bytes
	MaxLabel         = 64              // bytes of Color and CloneKind
)

// DefaultMemory is 4 GiB, or a quarter of the host's memory where that is less. A host that does not
// tell (0) is taken to have enough.
func DefaultMemory(hostMiB int) int {
	if hostMiB <= 0 {
		return DefaultMemoryMiB
	}
	return max(MinMemoryMiB, min(DefaultMemoryMiB, hostMiB/4))
}

// Check says what is wrong with the settings of a workspace.
func (w *Workspace) Check() error {
	if _, err := ParseID(string(w.ID)); err != nil {
		return err
	}
	if _, err := ParseName(string(w.Name)); err != nil {
		return err
	}
	if err := w.MAC.Check(); err != nil {
		return err
	}
	if w.CPUs < 1 || w.CPUs > MaxCPUs {
		return fmt.Errorf("%d CPUs: it takes 1 to %d", w.CPUs, MaxCPUs)
	}
	if w.MemoryMiB < MinMemoryMiB || w.MemoryMiB > MaxMemoryMiB {
		return fmt.Errorf("%d MiB of memory: it takes %d to %d", w.MemoryMiB, MinMemoryMiB, MaxMemoryMiB)
	}
	if w.HomeMiB < MinHomeMiB || w.HomeMiB > MaxHomeMiB {
		return fmt.Errorf("%d MiB of home: it takes %d to %d", w.HomeMiB, MinHomeMiB, MaxHomeMiB)
	}
	switch w.DiskFormat {
	case "", Raw, QCOW2:
	default:
		return fmt.Errorf("unknown disk format %q", w.DiskFormat)
	}
	switch w.Throwaway {
	case "", Attached, Detached:
	default:
		return fmt.Errorf("unknown kind of throw-away workspace %q", w.Throwaway)
	}
	if w.Image != "" {
		if _, err := images.ParseRef(w.Image); err != nil {
			return err // it becomes a path component
		}
	}
	if len(w.Color) > MaxLabel || strings.ContainsFunc(w.Color, unicode.IsControl) {
		return fmt.Errorf("not a colour: %.80q", w.Color)
	}
	if len(w.CloneKind) > MaxLabel || strings.ContainsFunc(w.CloneKind, unicode.IsControl) {
		return fmt.Errorf("not a kind of clone: %.80q", w.CloneKind)
	}
	if len(w.Notes) > MaxNotes || !utf8.ValidString(w.Notes) {
		return fmt.Errorf("notes of %d bytes: they take up to %d, in UTF-8", len(w.Notes), MaxNotes)
	}
	return nil
}
