package vm

import (
	"fmt"

	"bromure.io/tui/internal/verb"
)

// The plans of the verbs that remove something of a workspace. They are pure: the inventory is what the owners found on disk, and the
// result is what will be shown and done. ID and Made are the caller's to set.

func plan(v verb.Verb, ws Workspace, inv, losses []verb.Item) verb.Plan {
	return verb.Plan{
		Verb:    v,
		Subject: verb.Subject{Kind: "workspace", ID: string(ws.ID), Name: string(ws.Name)},
		Losses:  losses,
		Seen:    verb.Fingerprint(inv),
	}
}

// PlanReset plans to bring a workspace back to its base: the system disk goes, and the next start clones
// the base again. Checkpoints stay and are the way back.
func PlanReset(ws Workspace, inv []verb.Item) verb.Plan {
	losses, _ := selectItems(inv, func(r KindRow) bool { return r.Reset })
	for i := range losses {
		if losses[i].Kind == KindDisk {
			losses[i].What = "the system disk: what was installed with apt, and changes to /etc, /var, /usr and /opt"
		}
	}
	p := plan(verb.Reset, ws, inv, losses)
	p.WayBack = checkpoints(inv, KindCheckpointDisk)
	if has(inv, KindHome) {
		p.Keeps = append(p.Keeps, "/home/ubuntu")
	}
	p.Keeps = append(p.Keeps, kept(inv, KindCheckpoint, KindSecrets, KindGeneratedKey, KindImportedKey, KindBrowser)...)
	p.Keeps = append(p.Keeps, "the settings", "shared host folders, untouched")
	return p
}

// PlanEraseHome plans to remove /home/ubuntu with every copy of it, and the key pair that was generated for it. There is no
// way back: the home halves of the checkpoints go too.
func PlanEraseHome(ws Workspace, inv []verb.Item) verb.Plan {
	losses, _ := selectItems(inv, func(r KindRow) bool { return r.Erase })
	p := plan(verb.EraseHome, ws, inv, losses)
	if has(inv, KindDisk) {
		p.Keeps = append(p.Keeps, "the system disk and what was installed")
	}
	p.Keeps = append(p.Keeps, kept(inv, KindCheckpointDisk, KindSecrets, KindImportedKey, KindBrowser)...)
	p.Keeps = append(p.Keeps, "the settings", "shared host folders, untouched")
	return p
}

// PlanDelete plans to remove a workspace with everything that it has. There is no way back.
func PlanDelete(ws Workspace, inv []verb.Item) verb.Plan {
	losses, _ := selectItems(inv, func(KindRow) bool { return true })
	p := plan(verb.Delete, ws, inv, losses)
	p.Keeps = []string{"the base image", "shared host folders, untouched"}
	return p
}

func has(inv []verb.Item, kind string) bool { return count(inv, kind) > 0 }

func count(inv []verb.Item, kind string) (n int) {
	for _, it := range inv {
		if it.Kind == kind {
			n++
		}
	}
	return n
}

// checkpoints names the checkpoints that have a half of that kind, by their folders.
func checkpoints(inv []verb.Item, half string) (names []string) {
	for _, it := range inv {
		if it.Kind == half {
			names = append(names, "checkpoint "+CheckpointOf(it.Path))
		}
	}
	return names
}

// kept words what stays, a line a kind.
func kept(inv []verb.Item, kinds ...string) (lines []string) {
	for _, k := range kinds {
		n := count(inv, k)
		if n == 0 {
			continue
		}
		switch k {
		case KindCheckpoint:
			lines = append(lines, number(n, "checkpoint", "checkpoints"))
		case KindCheckpointDisk:
			lines = append(lines, "the system half of "+number(n, "checkpoint", "checkpoints"))
		case KindImportedKey:
			lines = append(lines, number(n, "imported SSH key", "imported SSH keys"))
		default:
			lines = append(lines, RowOf(k).What)
		}
	}
	return lines
}

func number(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
