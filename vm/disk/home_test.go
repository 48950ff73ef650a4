package disk

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bromure.io/tui/internal/problem"
)

func TestCreateHome(t *testing.T) {
	if findMke2fs() == "" {
		t.Skip("no mke2fs here: e2fsprogs is not installed")
	}
	for _, size := range []int64{16 << 20, 512 << 20, 64 << 30} {
		t.Run(mib(size), func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "home.img")
			if err := CreateHome(t.Context(), path, size); err != nil {
				t.Fatal(err)
			}
			u, err := Stat(path)
			if err != nil || u.Apparent != size || u.Allocated > 16<<20 {
				t.Errorf("home.img: %+v, %v", u, err)
			}
			out, err := exec.Command("dumpe2fs", "-h", path).CombinedOutput()
			if err != nil {
				out, err = exec.Command("/usr/sbin/dumpe2fs", "-h", path).CombinedOutput()
			}
			if err != nil {
				t.Fatalf("dumpe2fs: %v: %s", err, out)
			}
			for _, want := range []string{"Filesystem volume name:   " + HomeLabel, "has_journal", "Reserved block count:     0", "Filesystem state:         clean"} {
				if !strings.Contains(string(out), want) {
					t.Errorf("dumpe2fs does not say %q:\n%s", want, out)
				}
			}
			fsck, err := exec.LookPath("e2fsck")
			if err != nil {
				fsck = "/usr/sbin/e2fsck"
			}
			if out, err := exec.Command(fsck, "-fn", path).CombinedOutput(); err != nil {
				t.Errorf("e2fsck: %v: %s", err, out)
			}
			write(t, path, "somebody's home")
			if err := CreateHome(t.Context(), path, size); problem.KindOf(err) != problem.Refused {
				t.Errorf("a second home over the first: %v", err)
			}
			leftOver(t, dir, "home.img")
		})
	}
}

func TestCreateHomeWithoutMke2fs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "home.img")
	if err := createHome(t.Context(), path, 64<<30, ""); err != nil {
		t.Fatal(err)
	}
	if u, err := Stat(path); err != nil || u.Apparent != 64<<30 || u.Allocated > 64<<10 {
		t.Errorf("a blank home: %+v, %v", u, err)
	}
}

func TestCreateHomeFails(t *testing.T) {
	dir := t.TempDir()
	fail := filepath.Join(t.TempDir(), "mke2fs")
	if err := os.WriteFile(fail, []byte("#!/bin/sh\nprintf 'bad\\033thing' >&2\nexit 3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	err := createHome(t.Context(), filepath.Join(dir, "home.img"), 1<<30, fail)
	if err == nil || !strings.Contains(err.Error(), `bad\x1bthing`) {
		t.Errorf("createHome: %v", err)
	}
	leftOver(t, dir)
}

func TestFree(t *testing.T) {
	dir := t.TempDir()
	a, err := Free(dir)
	if err != nil || a <= 0 {
		t.Fatalf("Free = %d, %v", a, err)
	}
	if _, err := Free(filepath.Join(dir, "not", "yet", "there")); err != nil {
		t.Errorf("Free of what is not there yet: %v", err)
	}
	if err := CheckSpace(dir, 1<<60); problem.HintOf(err) == "" {
		t.Errorf("CheckSpace for an exbibyte: %v", err)
	}
}
