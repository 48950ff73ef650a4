package daemontest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bromure.io/tui/internal/layout"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/store"
)

// checkpointsOfFill are the checkpoints that [Place.Fill] makes.
var checkpointsOfFill = []string{"2026-11-28T09-00-00Z", "2026-11-29T21-30-00Z"}

// filesOf are the files of each kind of thing, relative to the workspace's directory. A kind without any is nothing on disk.
func filesOf() map[string][]string {
	d := layout.WorkspaceDir("")
	files := map[string][]string{
		vm.KindDisk:         {d.Disk()},
		vm.KindHome:         {d.Home()},
		vm.KindRAM:          {d.SavedRAM()},
		vm.KindSettings:     {d.Config()},
		vm.KindState:        {d.State()},
		vm.KindLock:         {d.Lock()},
		vm.KindNames:        {d.Names()},
		vm.KindSecrets:      {d.Secrets(), d.Secrets() + ".bak"},
		vm.KindGeneratedKey: {d.GeneratedKey(), d.GeneratedPublicKey()},
		vm.KindImportedKey:  {filepath.Join(d.SSH(), "deploy"), filepath.Join(d.SSH(), "deploy.pub")},
		vm.KindTraces:       {filepath.Join(d.Traces(), "2026-11-29.jsonl"), filepath.Join(d.Traces(), "bodies", "1")},
		vm.KindIncidents:    {d.Incidents()},
		vm.KindMark:         {d.Compromised()},
		vm.KindBrowser:      {filepath.Join(d.Browser(), "profile.img")},
		vm.KindMAC:          nil,
		vm.KindUnknown: {
			"notes of mine.txt", filepath.Join("stray", "deep", "file"), filepath.Join(d.Checkpoints(), "stray"),
			filepath.Join(string(d.Checkpoint(checkpointsOfFill[0])), "stray.img"),
		},
	}
	for _, k := range layout.LogKinds {
		files[vm.KindLogs] = append(files[vm.KindLogs], d.Log(k), d.Log(k)+".1")
	}
	for _, c := range checkpointsOfFill {
		dir := d.Checkpoint(c)
		files[vm.KindCheckpointDisk] = append(files[vm.KindCheckpointDisk], dir.Disk())
		files[vm.KindCheckpointHome] = append(files[vm.KindCheckpointHome], dir.Home())
		files[vm.KindCheckpoint] = append(files[vm.KindCheckpoint], dir.Manifest())
	}
	return files
}

// Fill gives a workspace things of every kind that [vm.Kinds] has, except those kinds that are left out, and returns
// the kind of each of its files. It fails for a kind that it does not know how to make, so that a new row there needs one here.
func (p *Place) Fill(ws vm.Workspace, without ...string) (kinds map[string]string, err error) {
	files := filesOf()
	kinds = map[string]string{}
	dir := string(p.Root.Workspace(string(ws.ID)))
	for _, row := range vm.Kinds {
		paths, known := files[row.Kind]
		if !known {
			return nil, fmt.Errorf("nobody knows how to make %q (%s) for tests: add its files to filesOf", row.Kind, row.What)
		}
		if slices.Contains(without, row.Kind) {
			continue
		}
		for _, rel := range paths {
			kinds[rel] = row.Kind
			path := filepath.Join(dir, rel)
			if _, err := os.Lstat(path); err == nil {
				continue // made with the workspace
			}
			if err := os.MkdirAll(filepath.Dir(path), layout.DirMode); err != nil {
				return nil, err
			}
			if err := os.WriteFile(path, content(rel), layout.FileMode); err != nil {
				return nil, err
			}
		}
	}
	if slices.Contains(without, vm.KindDisk) {
		return kinds, nil
	}
	list, err := p.images()
	if err != nil || len(list) == 0 {
		return nil, errors.Join(errors.New("fill a workspace: there is no image"), err)
	}
	s := &store.Store{Root: p.Root}
	_, err = s.Update(ws.ID, func(w *vm.Workspace) error {
		w.Image, w.DiskFormat, w.CloneKind = list[len(list)-1], vm.Raw, "reflink"
		return nil
	})
	return kinds, err
}

// content is what a file that nothing reads here has in it: its own name, or what its reader must find.
func content(rel string) []byte {
	switch filepath.Base(rel) {
	case "state.json":
		return []byte(`{"version":1}`)
	case "names.json":
		return []byte(`{}`)
	case "compromised.json":
		return []byte(`{"reason":"a placeholder was seen where it does not belong","at":"2026-11-30T10:00:00Z"}`)
	case "disk.img", "home.img", "vm.state", "profile.img":
		return []byte(strings.Repeat(rel+"\n", 512))
	}
	return []byte(rel + "\n")
}

// images are the references of the place's images.
func (p *Place) images() ([]string, error) {
	entries, err := os.ReadDir(p.Root.Images())
	if err != nil {
		return nil, err
	}
	var refs []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			refs = append(refs, e.Name())
		}
	}
	return refs, nil
}
