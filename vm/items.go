package vm

import (
	"strings"

	"bromure.io/tui/internal/verb"
)

// OwnerWorkspace is the owner of everything in a workspace's directory, and of its MAC reservation.
const OwnerWorkspace = "workspace"

// Kinds of things that a workspace has. Every file that the program puts into a workspace's directory is of one of these: a file
// of a new kind gets a row in [Kinds] and a place in each plan.
const (
	KindDisk           = "disk"
	KindHome           = "home"
	KindRAM            = "saved-ram"
	KindSettings       = "settings"
	KindState          = "state"
	KindLock           = "lock"
	KindNames          = "names"
	KindSecrets        = "secrets"
	KindGeneratedKey   = "generated-key"
	KindImportedKey    = "imported-key"
	KindCheckpointDisk = "checkpoint-disk"
	KindCheckpointHome = "checkpoint-home"
	KindCheckpoint     = "checkpoint" // a checkpoint's manifest
	KindLogs           = "logs"
	KindTraces         = "traces"
	KindIncidents      = "incidents"
	KindMark           = "compromise-mark"
	KindBrowser        = "browser-profile"
	KindMAC            = "mac"
	KindUnknown        = "unknown"
)

// KindRow says what a kind is, for people, and which verbs remove it.
type KindRow struct {
	Kind    string
	What    string
	Reset   bool // goes with the system disk
	Erase   bool // goes with the home
	Trivial bool // not worth a line of its own in a dialog: it is named together with others
}

// Kinds lists every kind once, in the order in which plans show them. Deleting a workspace removes all.
var Kinds = []KindRow{
	{Kind: KindDisk, What: "the system disk", Reset: true},
	{Kind: KindHome, What: "/home/ubuntu", Erase: true},
	{Kind: KindRAM, What: "the saved memory of the suspended machine", Reset: true, Erase: true},
	{Kind: KindCheckpointDisk, What: "the system half of a checkpoint"},
	{Kind: KindCheckpointHome, What: "the home half of a checkpoint", Erase: true},
	{Kind: KindCheckpoint, What: "a checkpoint's description"},
	{Kind: KindGeneratedKey, What: "the generated SSH key pair", Erase: true},
	{Kind: KindImportedKey, What: "an imported SSH key"},
	{Kind: KindSecrets, What: "the stored secrets"},
	{Kind: KindBrowser, What: "the browser profile"},
	{Kind: KindTraces, What: "the recorded traffic"},
	{Kind: KindIncidents, What: "the incidents"},
	{Kind: KindMark, What: "the mark of a compromise"},
	{Kind: KindLogs, What: "the logs"},
	{Kind: KindSettings, What: "the settings"},
	{Kind: KindState, What: "the state of the last run", Trivial: true},
	{Kind: KindNames, What: "the table of synthetic addresses", Trivial: true},
	{Kind: KindLock, What: "the lock file", Trivial: true},
	{Kind: KindMAC, What: "the reserved MAC address"},
	{Kind: KindUnknown, What: "a file that this program did not make"},
}

// RowOf is the row of a kind, that of [KindUnknown] for one that is not in the list.
func RowOf(kind string) KindRow {
	for _, r := range Kinds {
		if r.Kind == kind {
			return r
		}
	}
	return Kinds[len(Kinds)-1]
}

// WhatIs says for people what the thing of that kind at that path is.
func WhatIs(kind, path string) string {
	what := RowOf(kind).What
	if c := CheckpointOf(path); c != "" {
		what = strings.Replace(what, "a checkpoint", "checkpoint "+c, 1)
	}
	if kind == KindUnknown {
		what += ": " + path
	}
	return what
}

// selectItems divides an inventory by the kinds' rows, in their order.
func selectItems(inv []verb.Item, goes func(KindRow) bool) (losses, keeps []verb.Item) {
	for _, r := range Kinds {
		for _, it := range inv {
			if RowOf(it.Kind).Kind != r.Kind {
				continue
			}
			if goes(r) {
				losses = append(losses, it)
			} else {
				keeps = append(keeps, it)
			}
		}
	}
	return losses, keeps
}
