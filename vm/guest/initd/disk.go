package initd

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
)

// disk is a block device of the machine.
type disk struct {
	name   string // "vda"
	serial string
}

func (d disk) path() string { return "/dev/" + d.name }

// findDisk returns the disk with that serial. Two with the same are an error: writing to the wrong one is
// what serials are there to prevent.
func findDisk(disks []disk, serial string) (found disk, ok bool, err error) {
	for _, d := range disks {
		if d.serial != serial {
			continue
		}
		if ok {
			return disk{}, false, fmt.Errorf("two disks have the serial %q: %s and %s", serial, found.name, d.name)
		}
		found, ok = d, true
	}
	return found, ok, nil
}

// listDisks is what an error says about the disks that there are.
func listDisks(disks []disk) string {
	if len(disks) == 0 {
		return "there is none at all"
	}
	var s []string
	for _, d := range disks {
		s = append(s, fmt.Sprintf("%s %q", d.name, d.serial))
	}
	return "there are: " + strings.Join(s, ", ")
}

// headSize is how much of a disk is looked at to decide what is on it. Every signature that matters is within it: ext4
// at 1 KiB, LUKS and XFS at 0, LVM at 512 bytes, swap at 4 KiB, btrfs at 64 KiB.
const headSize = 1 << 20

// content is what a disk holds.
type content int

const (
	foreign content = iota // something that is not ext4: hands off
	blank                  // nothing: every byte of its head is zero
	ext4
)

// Fields of the ext4 super block, which begins 1024 bytes into the disk (Documentation/filesystems/ext4/super.rst).
const (
	superOffset = 1024
	superSize   = 1024
	superMagic  = 0xef53

	offMagic  = 0x38 // le16
	offState  = 0x3a // le16
	offCompat = 0x5c // le32

	stateValid = 1 // cleanly unmounted; not touched by mounts when there is a journal
	stateError = 2 // the kernel found errors

	compatJournal = 4
)

// classify says what the head of a disk shows, and whether an ext4 on it has to be checked before it is mounted. A
// file system with a journal that was not unmounted needs none: mounting replays the journal.
func classify(head []byte) (c content, check bool) {
	if len(head) < superOffset+superSize {
		return foreign, false
	}
	if len(bytes.TrimLeft(head, "\x00")) == 0 && len(head) == headSize {
		return blank, false
	}
	super := head[superOffset : superOffset+superSize]
	if binary.LittleEndian.Uint16(super[offMagic:]) != superMagic {
		return foreign, false
	}
	state := binary.LittleEndian.Uint16(super[offState:])
	journal := binary.LittleEndian.Uint32(super[offCompat:])&compatJournal != 0
	return ext4, state&stateError != 0 || !journal && state&stateValid == 0
}

// checked says what the exit status of e2fsck -p means (e2fsck(8), "EXIT CODE"): bits 1 and 2 are repairs that were made,
// everything else is damage that is still there, or no check at all.
func checked(status int) error {
	if status >= 0 && status&^3 == 0 {
		return nil
	}
	if status >= 0 && status&4 != 0 {
		return fmt.Errorf("it has errors that are not repaired without asking (e2fsck: %d); restore a checkpoint, or repair the image with e2fsck", status)
	}
	return fmt.Errorf("e2fsck failed with status %d", status)
}
