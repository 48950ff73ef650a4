package cli

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bromure.io/tui/internal/verb"
	"bromure.io/tui/vm"
)

var update = flag.Bool("update", false, "write the golden plans anew")

// inventoryOf is an inventory with things of every kind except those left out, each with a size and an age of its own.
func inventoryOf(now time.Time, without ...string) (inv []verb.Item) {
	paths := map[string][]string{
		vm.KindDisk: {"disk.img"}, vm.KindHome: {"home.img"}, vm.KindRAM: {"vm.state"},
		vm.KindCheckpointDisk: {"checkpoints/2026-11-28T09-00-00Z/disk.img", "checkpoints/2026-11-29T21-30-00Z/disk.img"},
		vm.KindCheckpointHome: {"checkpoints/2026-11-28T09-00-00Z/home.img", "checkpoints/2026-11-29T21-30-00Z/home.img"},
		vm.KindCheckpoint:     {"checkpoints/2026-11-28T09-00-00Z/manifest.json", "checkpoints/2026-11-29T21-30-00Z/manifest.json"},
		vm.KindGeneratedKey:   {"ssh/id_ed25519", "ssh/id_ed25519.pub"}, vm.KindImportedKey: {"ssh/deploy"},
		vm.KindSecrets: {"secrets.enc"}, vm.KindBrowser: {"browser"}, vm.KindTraces: {"traces"}, vm.KindIncidents: {"incidents.jsonl"},
		vm.KindMark: {"compromised.json"}, vm.KindLogs: {"logs"}, vm.KindSettings: {"workspace.json"}, vm.KindState: {"state.json"},
		vm.KindNames: {"names.json"}, vm.KindLock: {"lock"}, vm.KindMAC: {""}, vm.KindUnknown: {"notes\x1b[31m.txt"},
	}
	for n, row := range vm.Kinds {
		if strings.Contains(" "+strings.Join(without, " ")+" ", " "+row.Kind+" ") {
			continue
		}
		for i, path := range paths[row.Kind] {
			it := verb.Item{
				Owner: vm.OwnerWorkspace, Kind: row.Kind, What: vm.WhatIs(row.Kind, path), Path: path, Unknown: row.Kind == vm.KindUnknown,
				Own: int64(n*n*n+1) << 17, Changed: now.Add(-time.Duration(n*n+i) * time.Hour).Add(-time.Minute),
			}
			switch row.Kind {
			case vm.KindCheckpointDisk, vm.KindCheckpointHome:
				it.Shared = 3 << 30
			case vm.KindLogs, vm.KindTraces, vm.KindBrowser:
				it.Count = n
			case vm.KindMAC:
				it.What, it.Own, it.Changed = "the reserved MAC address 02:00:00:00:00:01", 0, time.Time{}
			}
			inv = append(inv, it)
		}
	}
	return inv
}

// TestPlansInWords holds the words of each verb, and the text that the command line makes of them, to files.
// go test ./internal/cli -run TestPlansInWords -update writes them anew; then read the difference.
func TestPlansInWords(t *testing.T) {
	now := time.Now()
	ws := vm.Workspace{ID: vm.ID("a41f" + strings.Repeat("0", 28)), Name: "api server"}
	damaged := vm.Workspace{ID: ws.ID, Name: vm.Name(ws.ID.Short())}
	all := inventoryOf(now)
	noCheckpoints := inventoryOf(now, vm.KindCheckpoint, vm.KindCheckpointDisk, vm.KindCheckpointHome, vm.KindUnknown, vm.KindMark)
	unstarted := inventoryOf(now, vm.KindCheckpoint, vm.KindCheckpointDisk, vm.KindCheckpointHome, vm.KindUnknown, vm.KindMark, vm.KindDisk, vm.KindHome,
		vm.KindRAM, vm.KindSecrets, vm.KindGeneratedKey, vm.KindImportedKey, vm.KindTraces, vm.KindIncidents, vm.KindBrowser)
	for name, p := range map[string]verb.Plan{
		"reset":                vm.PlanReset(ws, all),
		"reset-no-checkpoints": vm.PlanReset(ws, noCheckpoints),
		"reset-unstarted":      vm.PlanReset(ws, unstarted),
		"erase-home":           vm.PlanEraseHome(ws, all),
		"delete":               vm.PlanDelete(ws, all),
		"delete-unstarted":     vm.PlanDelete(ws, unstarted),
		"delete-damaged":       vm.PlanDelete(damaged, unstarted),
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			if err := (&app{}).printPlan(&got, p); err != nil {
				t.Fatal(err)
			}
			words := p.Words(now)
			if words.Ask != "" {
				fmt.Fprintf(&got, "\n%s\n", line(words.Ask))
			}
			data, err := json.MarshalIndent(words, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&got, "\n-- words --\n%s\n", data)
			path := filepath.Join("testdata", "plans", name+".golden")
			if *update {
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("the plan reads\n%s\nwant (%s)\n%s", got.Bytes(), path, want)
			}
			if strings.Contains(strings.SplitN(got.String(), "-- words --", 2)[0], "\x1b") {
				t.Error("a control character of a file's name reaches the terminal")
			}
		})
	}
}
