//go:build unix

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/verb"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/disk"
)

// Inventory lists everything that is on disk of a workspace, and its MAC reservation. It is what is
// there, not what should be: a name that no row of [vm.Kinds] explains is listed as unknown. Symbolic links are things of their own and are not
// followed. It works for a workspace whose settings are damaged.
func (s *Store) Inventory(id vm.ID) ([]verb.Item, error) {
	dir, err := s.openDir(id)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	root, err := os.OpenRoot(dir.Name())
	if err != nil {
		return nil, err
	}
	defer root.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list what workspace %s has: %w", id.Short(), err)
	}
	var items []verb.Item
	for _, name := range names {
		more, err := inventory(root, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a temporary file of somebody who is at work
		}
		if err != nil {
			return nil, fmt.Errorf("list what workspace %s has: %w", id.Short(), err)
		}
		items = append(items, more...)
	}
	idx, err := s.readIndex()
	if err != nil {
		return nil, err
	}
	if mac, ok := idx[id]; ok {
		items = append(items, verb.Item{Owner: vm.OwnerWorkspace, Kind: vm.KindMAC, What: "the reserved MAC address " + string(mac), Identity: string(mac)})
	}
	return items, nil
}

// inventory lists one entry of a workspace's directory, with its parts where they belong to different kinds.
func inventory(root *os.Root, name string) ([]verb.Item, error) {
	d := layout.WorkspaceDir("")
	switch name {
	case path.Base(d.Checkpoints()):
		return parts(root, name, 2, func(rel string) string {
			c := d.Checkpoint(vm.CheckpointOf(rel))
			switch rel {
			case c.Disk():
				return vm.KindCheckpointDisk
			case c.Home():
				return vm.KindCheckpointHome
			case c.Manifest():
				return vm.KindCheckpoint
			}
			return vm.KindUnknown
		})
	case path.Base(d.SSH()):
		return parts(root, name, 1, func(rel string) string {
			if rel == d.GeneratedKey() || rel == d.GeneratedPublicKey() {
				return vm.KindGeneratedKey
			}
			return vm.KindImportedKey
		})
	}
	it, err := item(root, name, kindOf(name))
	return []verb.Item{it}, err
}

// kindOf is the kind of an entry that is one thing as a whole.
func kindOf(name string) string {
	d := layout.WorkspaceDir("")
	switch name {
	case d.Disk():
		return vm.KindDisk
	case d.Home():
		return vm.KindHome
	case d.SavedRAM():
		return vm.KindRAM
	case d.Config():
		return vm.KindSettings
	case d.State():
		return vm.KindState
	case d.Lock():
		return vm.KindLock
	case d.Names():
		return vm.KindNames
	case d.Secrets(), d.Secrets() + ".bak":
		return vm.KindSecrets
	case d.Incidents():
		return vm.KindIncidents
	case d.Compromised():
		return vm.KindMark
	case d.Logs():
		return vm.KindLogs
	case d.Traces():
		return vm.KindTraces
	case d.Browser():
		return vm.KindBrowser
	}
	return vm.KindUnknown
}

// parts lists what is in a directory, down to the given depth, each with its own kind. The directory itself is no thing; it goes with
// the workspace. An entry that is no directory where one is expected is unknown.
func parts(root *os.Root, name string, depth int, kind func(rel string) string) ([]verb.Item, error) {
	fi, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !fi.IsDir() {
		it, err := item(root, name, vm.KindUnknown)
		return []verb.Item{it}, err
	}
	entries, err := fs.ReadDir(root.FS(), name)
	if err != nil {
		return nil, err
	}
	var items []verb.Item
	for _, e := range entries {
		rel := path.Join(name, e.Name())
		var more []verb.Item
		if depth > 1 && e.IsDir() {
			more, err = parts(root, rel, depth-1, kind)
		} else {
			var it verb.Item
			it, err = item(root, rel, kind(rel))
			more = []verb.Item{it}
		}
		if err != nil {
			return nil, err
		}
		items = append(items, more...)
	}
	return items, nil
}

// stable are the kinds whose files are not replaced by themselves: another file in the place of one of
// these is another thing.
var stable = map[string]bool{
	vm.KindDisk: true, vm.KindHome: true, vm.KindRAM: true, vm.KindCheckpointDisk: true, vm.KindCheckpointHome: true,
	vm.KindGeneratedKey: true, vm.KindImportedKey: true, vm.KindBrowser: true, vm.KindUnknown: true,
}

// item describes one entry, with everything in it when it is a directory.
func item(root *os.Root, rel, kind string) (verb.Item, error) {
	fi, err := root.Lstat(rel)
	if err != nil {
		return verb.Item{}, err
	}
	it := verb.Item{
		Owner: vm.OwnerWorkspace, Kind: kind, What: vm.WhatIs(kind, rel), Path: rel,
		Changed: fi.ModTime(), Unknown: kind == vm.KindUnknown,
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		it.Own = st.Blocks * 512
		if stable[kind] {
			it.Identity = fmt.Sprintf("%d:%d", st.Dev, st.Ino)
		}
	}
	if fi.Mode().IsRegular() && stable[kind] {
		// Images share blocks with what they were cloned from: only the others come back.
		if u, err := disk.Measure(filepath.Join(root.Name(), rel)); err == nil {
			it.Own, it.Shared = u.Own(), u.Shared
		}
	}
	if !fi.IsDir() {
		return it, nil
	}
	it.Path = strings.TrimSuffix(rel, "/")
	err = fs.WalkDir(root.FS(), rel, func(p string, e fs.DirEntry, err error) error {
		if err != nil || p == rel {
			return err
		}
		fi, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		it.Count++
		if st, ok := fi.Sys().(*syscall.Stat_t); ok {
			it.Own += st.Blocks * 512
		}
		if fi.ModTime().After(it.Changed) {
			it.Changed = fi.ModTime()
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return it, err
}
