package images

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// The files of an image, as its manifest names them.
const (
	BaseFile   = "base.img"
	KernelFile = "kernel"
	InitrdFile = "initrd.img"
)

// FileNames lists the files that every image has, in the order of their manifest.
var FileNames = []string{BaseFile, KernelFile, InitrdFile}

// MaxManifest bounds a manifest.json, in bytes.
const MaxManifest = 8 << 20

// ErrNewer: the manifest was written by a later version of this program.
var ErrNewer = errors.New("the manifest is of a newer version")

// ParseManifest reads the manifest.json of the image ref. Nothing in it is believed that could lead out of the image's directory.
func ParseManifest(data []byte, ref Ref) (Manifest, error) {
	var m Manifest
	if len(data) > MaxManifest {
		return m, fmt.Errorf("manifest of %s: more than %d bytes", ref, MaxManifest)
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return Manifest{}, fmt.Errorf("manifest of %s: %w", ref, err)
	}
	if err := m.check(ref); err != nil {
		return Manifest{}, fmt.Errorf("manifest of %s: %w", ref, err)
	}
	return m, nil
}

func (m *Manifest) check(ref Ref) error {
	switch {
	case m.Version > ManifestVersion:
		return fmt.Errorf("%w (%d, this program knows %d)", ErrNewer, m.Version, ManifestVersion)
	case m.Version < 1:
		return errors.New("it has no version")
	case m.Ref != ref:
		return fmt.Errorf("it is of image %q", m.Ref)
	case len(m.Files) != len(FileNames):
		return fmt.Errorf("it names %d files, an image has %d", len(m.Files), len(FileNames))
	}
	for _, name := range FileNames {
		f, ok := m.Find(name)
		if !ok {
			return fmt.Errorf("it does not name %s", name)
		}
		if f.Size < 0 || f.Stored < 0 {
			return fmt.Errorf("%s has a negative size", name)
		}
		if sum, err := hex.DecodeString(f.SHA256); err != nil || len(sum) != sha256.Size {
			return fmt.Errorf("the checksum of %s is not one", name)
		}
	}
	return nil
}

// Marshal is the content of manifest.json.
func (m *Manifest) Marshal() ([]byte, error) {
	if err := m.check(m.Ref); err != nil {
		return nil, fmt.Errorf("manifest of %s: %w", m.Ref, err)
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m); err != nil {
		return nil, err
	}
	return buf.Bytes(), nil
}

// ContentRef is the reference of an image with this content: the distribution, its release, and the
// first 32 bits of a hash over the files. Two builds of the same content get the same.
func ContentRef(distro, release string, files []File) (Ref, error) {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%s  %s\n", f.SHA256, f.Name)
	}
	return ParseRef(fmt.Sprintf("%s-%s-%s", distro, release, hex.EncodeToString(h.Sum(nil)[:4])))
}
