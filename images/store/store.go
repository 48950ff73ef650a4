// Package store finds and checks the base images on disk. It changes nothing: images/build makes them.
package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bromure.io/tui/images"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
)

const buildHint = "Build one with: bromure-cli image build"

// Store is the directory of all images: layout.Root's Images.
type Store struct {
	Dir string
}

// Broken is a directory in the store that should be an image and is none.
type Broken struct {
	Name string // the directory's, to be made printable before it is shown
	Err  error
}

// List returns the images, the newest first, without the broken ones: see [Store.Scan]. A store that does not exist is empty.
func (s Store) List() ([]images.Manifest, error) {
	good, _, err := s.Scan()
	return good, err
}

// Scan returns the images, the newest first, and what is broken.
func (s Store) Scan() ([]images.Manifest, []Broken, error) {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("list images: %w", err)
	}
	var good []images.Manifest
	var broken []Broken
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") { // builds that are not done
			continue
		}
		m, err := s.read(e.Name())
		if err != nil {
			broken = append(broken, Broken{e.Name(), err})
			continue
		}
		good = append(good, m)
	}
	slices.SortFunc(good, func(a, b images.Manifest) int {
		if c := b.Created.Compare(a.Created); c != 0 {
			return c
		}
		return strings.Compare(string(a.Ref), string(b.Ref))
	})
	return good, broken, nil
}

// Newest returns the image that was made last.
func (s Store) Newest() (images.Manifest, error) {
	good, broken, err := s.Scan()
	if err != nil {
		return images.Manifest{}, err
	}
	if len(good) > 0 {
		return good[0], nil
	}
	msg := "there is no base image"
	if len(broken) > 0 {
		msg = fmt.Sprintf("there is no base image that can be used (%d broken)", len(broken))
		return images.Manifest{}, problem.Wrap(problem.NotFound, broken[0].Err, msg, buildHint)
	}
	return images.Manifest{}, problem.New(problem.NotFound, msg, buildHint)
}

// Get returns the image with that reference.
func (s Store) Get(ref images.Ref) (images.Manifest, error) {
	if _, err := images.ParseRef(string(ref)); err != nil {
		return images.Manifest{}, problem.Wrap(problem.Usage, err, "", "")
	}
	if _, err := os.Lstat(string(s.Path(ref))); errors.Is(err, fs.ErrNotExist) {
		return images.Manifest{}, problem.New(problem.NotFound, fmt.Sprintf("there is no image %s", ref), "List them with: bromure-cli image ls")
	}
	return s.read(string(ref))
}

// Path is the directory of an image.
func (s Store) Path(ref images.Ref) layout.ImageDir {
	return layout.ImageDir(filepath.Join(s.Dir, string(ref)))
}

// read reads the manifest of a directory and checks that the files are there with their sizes.
func (s Store) read(name string) (images.Manifest, error) {
	ref, err := images.ParseRef(name)
	if err != nil {
		return images.Manifest{}, err
	}
	f, err := os.Open(s.Path(ref).Manifest())
	if errors.Is(err, fs.ErrNotExist) {
		return images.Manifest{}, problem.Wrap(problem.Unverified, err, fmt.Sprintf("image %s is incomplete", ref), buildHint)
	}
	if err != nil {
		return images.Manifest{}, fmt.Errorf("image %s: %w", ref, err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, images.MaxManifest+1))
	if err != nil {
		return images.Manifest{}, fmt.Errorf("image %s: %w", ref, err)
	}
	m, err := images.ParseManifest(data, ref)
	if err != nil {
		return images.Manifest{}, err
	}
	for _, file := range m.Files {
		fi, err := os.Lstat(filepath.Join(string(s.Path(ref)), file.Name))
		if err != nil {
			return images.Manifest{}, problem.Wrap(problem.Unverified, err, fmt.Sprintf("image %s is incomplete", ref), buildHint)
		}
		if !fi.Mode().IsRegular() || fi.Size() != file.Size {
			return images.Manifest{}, problem.New(problem.Unverified,
				fmt.Sprintf("image %s: %s has %d bytes, its manifest says %d", ref, file.Name, fi.Size(), file.Size), buildHint)
		}
	}
	return m, nil
}

// Sizes are how large an image appears and how much room it takes, in bytes.
func (s Store) Sizes(ref images.Ref) (apparent, allocated int64, err error) {
	for _, name := range images.FileNames {
		fi, err := os.Lstat(filepath.Join(string(s.Path(ref)), name))
		if err != nil {
			return 0, 0, fmt.Errorf("image %s: %w", ref, err)
		}
		apparent += fi.Size()
		allocated += Allocated(fi)
	}
	return apparent, allocated, nil
}

// Verify reads all of an image and compares it with its manifest. progress, which may be nil, is
// told how much of how much has been read, in bytes, about every 64 MiB.
func (s Store) Verify(ctx context.Context, ref images.Ref, progress func(done, total int64)) error {
	m, err := s.Get(ref)
	if err != nil {
		return err
	}
	var total, before int64
	for _, f := range m.Files {
		total += f.Size
	}
	for _, f := range m.Files {
		sum, err := Sum(ctx, filepath.Join(string(s.Path(ref)), f.Name), func(done int64) {
			if progress != nil {
				progress(before+done, total)
			}
		})
		if err != nil {
			return fmt.Errorf("verify image %s: %w", ref, err)
		}
		if sum != f.SHA256 {
			return problem.New(problem.Unverified, fmt.Sprintf("image %s: %s is not what was built: its SHA-256 is %s, not %s", ref, f.Name, sum, f.SHA256),
				"Do not boot from it. Build it anew with: bromure-cli image build")
		}
		before += f.Size
	}
	return nil
}
