package daemontest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"bromure.io/tui/internal/atomicfile"
	"bromure.io/tui/internal/control/wire"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/verb"
	"bromure.io/tui/vm"
)

// look reads what a daemon found: the tree of the data root with the names of workspaces in place of their IDs and
// without what changes by itself, the list as an entry for each workspace, and everything that is not as it must always be.
func (p *Place) look(ctx context.Context, pr *Process) (Tree, []string, error) {
	snap, err := pr.Snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}
	raw, err := ReadTree(string(p.Root))
	if err != nil {
		return nil, nil, err
	}
	var losses []string
	lost := func(format string, args ...any) { losses = append(losses, fmt.Sprintf(format, args...)) }

	names, macs := map[string]string{}, map[vm.ID]vm.MAC{}
	tree := Tree{}
	for _, w := range snap.Workspaces {
		names[string(w.ID)], macs[w.ID] = string(w.Name), w.MAC
		tree["list: "+string(w.Name)] = string(w.State)
		if w.Invalid != "" || w.Failure != nil {
			lost("%q is broken: %s %+v", w.Name, w.Invalid, w.Failure)
		}
		if one, err := pr.Workspace(ctx, string(w.ID)); err != nil || one.Name != w.Name {
			lost("describe %q: %v", w.Name, err)
		}
		dir := p.Root.Workspace(string(w.ID))
		if _, err := os.Lstat(dir.Disk()); err == nil && w.DiskFormat == "" {
			lost("%q has a disk.img that its settings know nothing of", w.Name)
		}
	}
	for rel, what := range raw {
		base := path.Base(rel)
		if atomicfile.IsTemp(base) || strings.HasPrefix(base, layout.NewWorkspacePrefix) {
			lost("left: %s", rel)
			continue
		}
		parts := strings.SplitN(rel, "/", 3)
		if parts[0] == "workspaces" && len(parts) > 1 && base != ".lock" {
			name, listed := names[parts[1]]
			if !listed {
				lost("%s is not in the list", rel)
			}
			parts[1] = name
			if len(parts) == 3 && base == "workspace.json" {
				data, err := os.ReadFile(filepath.Join(string(p.Root), rel))
				if what, err = settings(data, err); err != nil {
					lost("%s: %v", rel, err)
				}
			}
		}
		rel = strings.Join(parts, "/")
		if !changesByItself(parts) {
			tree[rel] = what
		}
	}
	if index, err := p.index(); err != nil || !maps.Equal(index, macs) {
		lost("the index of MAC addresses is %v, the workspaces have %v: %v", index, macs, err)
	}
	trash, err := os.ReadDir(p.Root.Trash())
	if err != nil {
		lost("the trash: %v", err)
	}
	for _, e := range deleteReserve(trash) {
		lost("in the trash: %s", e.Name())
	}
	machines, _ := os.ReadDir(p.Runtime.Machines())
	for _, e := range machines {
		lost("left of a machine: %s", e.Name())
	}
	for line := range strings.Lines(p.log()) {
		if strings.Contains(line, "level=ERROR") {
			lost("the daemon's log: %s", strings.TrimSpace(line))
		}
	}
	slices.Sort(losses)
	return tree, losses, nil
}

func (p *Place) log() string {
	data, _ := os.ReadFile(p.Root.DaemonLog())
	return string(data)
}

// changesByItself says whether a path below the data root, in its parts, is of no interest: what it holds changes by itself, and
// it lives and dies with the directory that it is in, which the list and the other files speak of.
func changesByItself(parts []string) bool {
	switch parts[0] {
	case "daemon.lock", "endpoint.json", "macs.json", "logs", "trash":
		return true
	case "workspaces":
		if len(parts) < 3 {
			return true // the directory itself, and .lock
		}
		top, _, _ := strings.Cut(parts[2], "/")
		return slices.Contains([]string{"logs", "state.json", "names.json", "lock"}, top)
	}
	return false
}

// settings is what of a workspace.json stays the same over a start.
func settings(data []byte, err error) (string, error) {
	var w vm.Workspace
	if err == nil {
		err = json.Unmarshal(data, &w)
	}
	w.ID, w.MAC = "", "" // other ones in each place
	w.Created, w.LastUsed = Epoch(), Epoch()
	w.Image, w.DiskFormat, w.CloneKind = "", "", "" // with the disk
	return fmt.Sprintf("%+v", w), err
}

// index reads macs.json.
func (p *Place) index() (map[vm.ID]vm.MAC, error) {
	idx := map[vm.ID]vm.MAC{}
	data, err := os.ReadFile(p.Root.MACs())
	if errors.Is(err, fs.ErrNotExist) {
		return idx, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &idx)
	}
	return idx, err
}

// State is what was found in comparison with the states before and after.
type state int

const (
	isBefore state = iota
	isAfter
	isBetween
	isNeither
)

// classify compares what was found with before and after. things: each path is judged by itself.
func classify(before, after, found Tree, things bool) (state, []string) {
	changes := differences(before, after)
	asBefore, asAfter := 0, 0
	var wrong []string
	for _, at := range union(before, after, found) {
		was, had := before[at]
		is, has := after[at]
		got, there := found[at]
		like := func(what string, exists bool) bool {
			return there == exists && (got == what || things && madeAnew(at))
		}
		switch {
		case slices.Contains(changes, at) && like(was, had):
			asBefore++
		case slices.Contains(changes, at) && like(is, has):
			asAfter++
		case slices.Contains(changes, at):
			wrong = append(wrong, fmt.Sprintf("%s is %q, before %q, after %q", at, got, was, is))
		case !like(was, had):
			wrong = append(wrong, fmt.Sprintf("%s is %q and was %q", at, got, was))
		}
	}
	switch {
	case wrong != nil:
		return isNeither, wrong
	case asBefore == 0: // also when nothing changes
		return isAfter, nil
	case asAfter == 0:
		return isBefore, nil
	case things:
		return isBetween, nil
	}
	return isNeither, []string{fmt.Sprintf("half done: %d of %d paths are as before", asBefore, asBefore+asAfter)}
}

// madeAnew says whether the content at a path is never the same twice: mke2fs draws a UUID.
func madeAnew(at string) bool { return strings.HasSuffix(at, "/home.img") }

func differences(a, b Tree) (paths []string) {
	for _, at := range union(a, b) {
		if x, y := a[at], b[at]; x != y {
			paths = append(paths, at)
		}
	}
	return paths
}

func union(trees ...Tree) []string {
	all := map[string]bool{}
	for _, t := range trees {
		for at := range t {
			all[at] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// useUp starts every workspace that can start, deletes them all and says what went wrong or is left.
func (p *Place) useUp(ctx context.Context, pr *Process) (losses []string, err error) {
	snap, err := pr.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	for _, w := range snap.Workspaces {
		id := string(w.ID)
		if w.Compromise == nil {
			for _, v := range []verb.Verb{verb.Start, verb.Kill} {
				if _, err := pr.Client.Do(ctx, wire.Do{Verb: string(v), Workspace: id}, nil); err != nil {
					losses = append(losses, fmt.Sprintf("%s %q afterwards: %v", v, w.Name, err))
				}
			}
		}
		if err := plan(verb.Delete, id)(ctx, p, pr); err != nil {
			losses = append(losses, fmt.Sprintf("delete %q afterwards: %v", w.Name, err))
		}
	}
	left, err := os.ReadDir(p.Root.Workspaces())
	for _, e := range left {
		if e.Name() != ".lock" {
			losses = append(losses, "left when everything was deleted: "+e.Name())
		}
	}
	if index, ierr := p.index(); ierr != nil || len(index) != 0 {
		losses = append(losses, fmt.Sprintf("MAC addresses when everything was deleted: %v, %v", index, ierr))
	}
	return losses, err
}
