package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bromure.io/tui/images"
	"bromure.io/tui/internal/problem"
)

// makeImage puts an image with small files into a store.
func makeImage(t *testing.T, s Store, ref images.Ref, created time.Time) images.Manifest {
	t.Helper()
	dir := string(s.Path(ref))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	m := images.Manifest{Version: images.ManifestVersion, Ref: ref, Distro: "debian", Suite: "bookworm", Release: "12", Architecture: "amd64", Created: created, Source: "built"}
	for _, name := range images.FileNames {
		content := []byte("content of " + name)
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(content)
		m.Files = append(m.Files, images.File{Name: name, Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:])})
	}
	data, err := m.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.Path(ref).Manifest(), data, 0o600); err != nil {
		t.Fatal(err)
	}
	return m
}

var day = time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)

func TestListAndNewest(t *testing.T) {
	s := Store{Dir: filepath.Join(t.TempDir(), "images")}
	if list, err := s.List(); len(list) != 0 || err != nil {
		t.Errorf("a store that does not exist: %v, %v", list, err)
	}
	if _, err := s.Newest(); problem.KindOf(err) != problem.NotFound || !strings.Contains(problem.HintOf(err), "image build") {
		t.Errorf("the newest of none: %v", err)
	}
	makeImage(t, s, "debian-12-old", day)
	makeImage(t, s, "debian-12-new", day.Add(time.Hour))
	makeImage(t, s, "ubuntu-24.04-x", day.Add(time.Minute))
	// What is no image, or not one yet.
	for _, d := range []string{".build-1", "half", "empty-manifest", "Name With Spaces", "newer", "elsewhere", "escapes"} {
		if err := os.MkdirAll(filepath.Join(s.Dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	manifest, err := os.ReadFile(s.Path("debian-12-new").Manifest())
	if err != nil {
		t.Fatal(err)
	}
	for d, text := range map[string]string{
		"empty-manifest": "",
		"newer":          `{"version": 99, "ref": "newer"}`,
		"elsewhere":      string(manifest),
		"escapes":        strings.ReplaceAll(strings.ReplaceAll(string(manifest), "debian-12-new", "escapes"), `"kernel"`, `"../kernel"`),
	} {
		if err := os.WriteFile(filepath.Join(s.Dir, d, "manifest.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	good, broken, err := s.Scan()
	if err != nil {
		t.Fatal(err)
	}
	var refs []string
	for _, m := range good {
		refs = append(refs, string(m.Ref))
	}
	if got := strings.Join(refs, " "); got != "debian-12-new ubuntu-24.04-x debian-12-old" {
		t.Errorf("images: %s", got)
	}
	var bad []string
	for _, b := range broken {
		bad = append(bad, b.Name)
		if b.Name == "newer" && !errors.Is(b.Err, images.ErrNewer) {
			t.Errorf("newer: %v", b.Err)
		}
	}
	if got := strings.Join(bad, ","); got != "Name With Spaces,elsewhere,empty-manifest,escapes,half,newer" {
		t.Errorf("broken: %s", got)
	}
	if m, err := s.Newest(); err != nil || m.Ref != "debian-12-new" {
		t.Errorf("the newest is %s, %v", m.Ref, err)
	}
}

func TestGet(t *testing.T) {
	s := Store{Dir: t.TempDir()}
	want := makeImage(t, s, "debian-12-a", day)
	got, err := s.Get("debian-12-a")
	if err != nil || got.Ref != want.Ref || len(got.Files) != 3 || !got.Created.Equal(day) {
		t.Errorf("%+v, %v", got, err)
	}
	for ref, kind := range map[images.Ref]problem.Kind{"debian-12-b": problem.NotFound, "../images": problem.Usage, "": problem.Usage, "UPPER": problem.Usage} {
		if _, err := s.Get(ref); problem.KindOf(err) != kind {
			t.Errorf("%q: %v", ref, err)
		}
	}
	apparent, allocated, err := s.Sizes("debian-12-a")
	if err != nil || apparent != int64(len("content of base.img"+"content of kernel"+"content of initrd.img")) || allocated <= 0 {
		t.Errorf("sizes %d %d %v", apparent, allocated, err)
	}
}

func TestVerify(t *testing.T) {
	const ref = "debian-12-a"
	for name, c := range map[string]struct {
		damage func(t *testing.T, s Store)
		kind   problem.Kind
		says   string
	}{
		"whole":         {func(*testing.T, Store) {}, "", ""},
		"one bit":       {func(t *testing.T, s Store) { overwrite(t, s.Path(ref).Base(), "contenu of base.img") }, problem.Unverified, "base.img"},
		"longer":        {func(t *testing.T, s Store) { overwrite(t, s.Path(ref).Kernel(), "content of kernel and more") }, problem.Unverified, "kernel"},
		"gone":          {func(t *testing.T, s Store) { os.Remove(s.Path(ref).Initrd()) }, problem.Unverified, "incomplete"},
		"a link to it":  {func(t *testing.T, s Store) { relink(t, s.Path(ref).Initrd()) }, problem.Unverified, "initrd.img"},
		"not there":     {func(t *testing.T, s Store) { os.RemoveAll(string(s.Path(ref))) }, problem.NotFound, ref},
		"manifest gone": {func(t *testing.T, s Store) { os.Remove(s.Path(ref).Manifest()) }, problem.Unverified, "incomplete"},
	} {
		t.Run(name, func(t *testing.T) {
			s := Store{Dir: t.TempDir()}
			makeImage(t, s, ref, day)
			c.damage(t, s)
			err := s.Verify(context.Background(), ref, nil)
			if c.kind == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || problem.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v (%s)", err, problem.KindOf(err))
			}
		})
	}
}

func overwrite(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// relink puts the same content behind a symbolic link, which could later lead elsewhere.
func relink(t *testing.T, name string) {
	t.Helper()
	if err := errors.Join(os.Rename(name, name+".real"), os.Symlink(name+".real", name)); err != nil {
		t.Fatal(err)
	}
}

func TestSumOfSparseFiles(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct {
		size int64
		data map[int64]string
	}{
		"empty":         {0, nil},
		"hole only":     {3*mib + 17, nil},
		"data only":     {5, map[int64]string{0: "12345"}},
		"data at start": {70 * mib, map[int64]string{0: "start"}},
		"data at end":   {70*mib + 3, map[int64]string{70 * mib: "end"}},
		"islands":       {130 * mib, map[int64]string{mib + 1: "one", 65 * mib: strings.Repeat("two", 100_000), 129*mib + 7: "three"}},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "sparse")
			f, err := os.Create(file)
			if err != nil {
				t.Fatal(err)
			}
			want := make([]byte, c.size)
			for at, s := range c.data {
				copy(want[at:], s)
				if _, err := f.WriteAt([]byte(s), at); err != nil {
					t.Fatal(err)
				}
			}
			if err := errors.Join(f.Truncate(c.size), f.Close()); err != nil {
				t.Fatal(err)
			}
			var last int64
			sum, err := Sum(context.Background(), file, func(done int64) {
				if done <= last || done > c.size {
					t.Errorf("progress went from %d to %d of %d", last, done, c.size)
				}
				last = done
			})
			if raw := sha256.Sum256(want); err != nil || sum != hex.EncodeToString(raw[:]) {
				t.Errorf("%s, %v", sum, err)
			}
			if c.size > reportEvery && last == 0 {
				t.Error("no progress was told")
			}
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	file := filepath.Join(t.TempDir(), "a")
	overwrite(t, file, "a")
	if _, err := Sum(ctx, file, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
