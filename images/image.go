// Package images has the words of the base images: references and manifests. It is pure; images/build
// makes an image and images/store finds and checks the ones on disk.
package images

import (
	"fmt"
	"regexp"
	"time"
)

// Ref names an image and is its directory: "debian-12-20261130", say.
type Ref string

var refPattern = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// ParseRef checks that s can be a reference: it is a path component, so nothing else is let through.
func ParseRef(s string) (Ref, error) {
	if !refPattern.MatchString(s) {
		return "", fmt.Errorf("not an image reference: %q", s)
	}
	return Ref(s), nil
}

// ManifestVersion is the version of manifest.json that this program writes.
const ManifestVersion = 1

// LogicalSize is how large a base disk appears to its guest: 24 GB in the sense of 24 * 2^30 bytes.
const LogicalSize = 24 << 30

// Manifest is the content of an image's manifest.json.
type Manifest struct {
	Version      int       `json:"version"`
	Ref          Ref       `json:"ref"`
	Distro       string    `json:"distro"` // "debian", "ubuntu"
	Suite        string    `json:"suite"`  // "bookworm", "noble"
	Release      string    `json:"release"`
	Architecture string    `json:"architecture"` // as Go names it
	Kernel       string    `json:"kernel"`       // release, as uname -r prints it
	Created      time.Time `json:"created"`
	Source       string    `json:"source"` // "built" here, or "published"
	Packages     []Package `json:"packages"`
	Files        []File    `json:"files"` // base.img, kernel, initrd.img
}

// Package is a package in the image.
type Package struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// File is a file of the image, relative to its directory.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`           // apparent, bytes
	SHA256 string `json:"sha256"`         // of the whole content, holes read as zeroes; lower-case hex
	Stored int64  `json:"stored_at_most"` // bytes allocated when it was made
}

// Find returns the file of that name.
func (m *Manifest) Find(name string) (File, bool) {
	for _, f := range m.Files {
		if f.Name == name {
			return f, true
		}
	}
	return File{}, false
}
