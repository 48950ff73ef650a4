package initd

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// fixture is a home as mke2fs leaves it, and a skel. The mark is one that everybody may set.
func fixture(t *testing.T) home {
	t.Helper()
	h := home{dir: t.TempDir(), skel: t.TempDir(), uid: os.Getuid(), gid: os.Getgid(), mark: "user.bromure.home"}
	if err := os.Mkdir(h.dir+"/lost+found", 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, h.skel+"/.profile", "profile\n")
	write(t, h.skel+"/.config/app/rc", "rc\n")
	if err := os.Chmod(h.skel+"/.profile", 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(".profile", h.skel+"/.link"); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(h.skel+"/fifo", 0o600); err != nil {
		t.Fatal(err)
	}
	return h
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	n, err := names(dir)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(n)
	return n
}

func TestSetUpHome(t *testing.T) {
	h := fixture(t)
	if err := h.setUp(); err != nil {
		t.Fatal(err)
	}
	if got, want := list(t, h.dir), []string{".config", ".link", ".profile"}; !slices.Equal(got, want) {
		t.Errorf("home has %q, want %q", got, want)
	}
	if read(t, h.dir+"/.config/app/rc") != "rc\n" || read(t, h.dir+"/.link") != "profile\n" {
		t.Error("content differs")
	}
	for name, want := range map[string]os.FileMode{".": homeMode | os.ModeDir, ".profile": 0o640, ".config": 0o755 | os.ModeDir} {
		if st, err := os.Lstat(filepath.Join(h.dir, name)); err != nil || st.Mode() != want {
			t.Errorf("%s: %v, %v", name, st.Mode(), err)
		}
	}
}

// TestUsedHome: whatever is in it, a home that carries our mark or somebody's files is not touched.
func TestUsedHome(t *testing.T) {
	h := fixture(t)
	if err := h.setUp(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setxattr(h.dir, h.mark, []byte{'1'}, 0); err == unix.ENOTSUP {
		t.Skip("the temporary directory has no extended attributes")
	}
	for _, name := range []string{".profile", ".link", ".config"} {
		if err := os.RemoveAll(filepath.Join(h.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(h.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := h.setUp(); err != nil || len(list(t, h.dir)) != 0 {
		t.Errorf("an emptied home got %q, %v", list(t, h.dir), err)
	}
	if st, err := os.Stat(h.dir); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("its mode is %v, %v", st.Mode(), err)
	}
}

func TestHomeFromElsewhere(t *testing.T) {
	h := fixture(t)
	write(t, h.dir+"/thesis.tex", "text")
	if err := h.setUp(); err != nil || !slices.Equal(list(t, h.dir), []string{"lost+found", "thesis.tex"}) {
		t.Errorf("%q, %v", list(t, h.dir), err)
	}
}

// TestHomeCutShort: a set-up that ended in the middle goes on, and does not touch what it did before.
func TestHomeCutShort(t *testing.T) {
	h := fixture(t)
	write(t, h.dir+"/.profile", "already mine\n")
	write(t, h.dir+"/"+tempPrefix+".config", "half a fi")
	write(t, h.dir+"/.config/mine", "kept\n")
	write(t, h.dir+"/lost+found/#123", "a found file")
	if err := h.setUp(); err != nil {
		t.Fatal(err)
	}
	if got, want := list(t, h.dir), []string{".config", ".link", ".profile", "lost+found"}; !slices.Equal(got, want) {
		t.Errorf("home has %q, want %q", got, want)
	}
	if read(t, h.dir+"/.profile") != "already mine\n" || read(t, h.dir+"/.config/mine") != "kept\n" || read(t, h.dir+"/.config/app/rc") != "rc\n" {
		t.Error("content differs")
	}
}

// TestHostileHome: links in a home lead nowhere out of it.
func TestHostileHome(t *testing.T) {
	h := fixture(t)
	outside := t.TempDir()
	if err := os.Symlink(outside, h.dir+"/.config"); err != nil {
		t.Fatal(err)
	}
	if err := h.setUp(); err == nil {
		t.Error("nothing was said about a link that leads out")
	}
	if got := list(t, outside); len(got) != 0 {
		t.Errorf("%q were written outside", got)
	}
}

func TestHomeWithoutSkel(t *testing.T) {
	h := fixture(t)
	h.skel = filepath.Join(h.skel, "no")
	if err := h.setUp(); err != nil || len(list(t, h.dir)) != 0 {
		t.Errorf("%q, %v", list(t, h.dir), err)
	}
}
