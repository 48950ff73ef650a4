package daemontest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"bromure.io/tui/images"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/store"
)

// Place is a data root and a runtime directory in one temporary directory.
type Place struct {
	Dir     string
	Root    layout.Root
	Runtime layout.Runtime
}

// NewPlace makes an empty place, in memory where the system has a file system there: what is looked at here is what a process that
// is killed leaves, not what a power cut does. Its path is short enough for sockets. The caller removes Dir.
func NewPlace() (*Place, error) {
	parent := "/dev/shm"
	if fi, err := os.Stat(parent); err != nil || !fi.IsDir() {
		parent = "/tmp"
	}
	dir, err := os.MkdirTemp(parent, "brm-")
	if err != nil {
		return nil, err
	}
	return OpenPlace(dir)
}

// OpenPlace makes what a place lacks.
func OpenPlace(dir string) (*Place, error) {
	p := &Place{Dir: dir, Root: layout.Root(filepath.Join(dir, "root")), Runtime: layout.Runtime(filepath.Join(dir, "run"))}
	for _, d := range []string{string(p.Root), string(p.Runtime)} {
		if err := layout.Ensure(d); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// Epoch is when the things of a place were made.
func Epoch() time.Time { return time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC) }

// AddImage adds a base image of a few kilobytes. Its content, and with it its reference, follows from release.
func (p *Place) AddImage(release string, created time.Time) (images.Ref, error) {
	m := images.Manifest{
		Version: images.ManifestVersion, Distro: "debian", Suite: "test", Release: release, Architecture: "amd64",
		Kernel: "6.1.0-test", Created: created, Source: "built", Packages: []images.Package{},
	}
	content := map[string][]byte{
		images.BaseFile:   bytes.Repeat([]byte("base "+release+"\n"), 8192)[:32<<10],
		images.KernelFile: []byte("kernel " + release),
		images.InitrdFile: bytes.Repeat([]byte{0}, 512),
	}
	for _, name := range images.FileNames {
		sum := sha256.Sum256(content[name])
		m.Files = append(m.Files, images.File{Name: name, Size: int64(len(content[name])), SHA256: hex.EncodeToString(sum[:])})
	}
	ref, err := images.ContentRef(m.Distro, release, m.Files)
	if err != nil {
		return "", err
	}
	m.Ref = ref
	data, err := m.Marshal()
	if err != nil {
		return "", err
	}
	content["manifest.json"] = data
	dir := p.Root.Image(string(ref))
	if err := os.MkdirAll(string(dir), layout.DirMode); err != nil {
		return "", err
	}
	for name, data := range content {
		if err := os.WriteFile(filepath.Join(string(dir), name), data, layout.BaseMode); err != nil {
			return "", err
		}
	}
	return ref, nil
}

// AddWorkspace adds a workspace that was never started.
func (p *Place) AddWorkspace(n store.NewWorkspace) (vm.Workspace, error) {
	s, err := store.Open(p.Root)
	if err != nil {
		return vm.Workspace{}, err
	}
	n.MemoryMiB, n.HomeMiB = vm.MinMemoryMiB, vm.MinHomeMiB
	ws, err := s.Create(context.Background(), n)
	if err != nil {
		return vm.Workspace{}, fmt.Errorf("add workspace %q: %w", n.Name, err)
	}
	return ws, nil
}
