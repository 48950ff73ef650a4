package disk

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"bromure.io/tui/internal/atomicfile"
	"bromure.io/tui/internal/problem"
	"bromure.io/tui/vm"
	"bromure.io/tui/vm/disk/disktest"
)

func TestMain(m *testing.M) {
	if src := os.Getenv("DISK_TEST_COPY"); src != "" {
		copyAndWait(src)
	}
	os.Exit(m.Run())
}

// fsCase is a file system and how a clone is made on it.
type fsCase struct {
	fs     string
	qcow2  bool
	kind   Kind
	format vm.DiskFormat
}

func TestCloneKinds(t *testing.T) {
	for _, c := range []fsCase{
		{"btrfs", true, Reflink, vm.Raw},
		{"btrfs", false, Reflink, vm.Raw},
		{"xfs", true, Reflink, vm.Raw},
		{"ext4", true, Overlay, vm.QCOW2},
		{"ext4", false, Copy, vm.Raw},
	} {
		t.Run(fmt.Sprintf("%s qcow2=%v", c.fs, c.qcow2), func(t *testing.T) {
			dir := disktest.Mount(t, c.fs, 640<<20)
			src, dst := filepath.Join(dir, "base.img"), filepath.Join(dir, "ws", "disk.img")
			disktest.Base(t, src, 24<<30, 24<<20)
			mkdir(t, filepath.Dir(dst))
			before := hash(t, src, 64<<20)

			var recorded Result
			r, err := Clone(t.Context(), src, dst, Options{QCOW2: c.qcow2, Record: func(r Result) error {
				recorded = r
				if _, err := os.Lstat(dst); err == nil {
					t.Error("the clone has its name before its format is recorded")
				}
				return nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			if want := (Result{c.kind, c.format}); r != want || recorded != want {
				t.Errorf("Clone = %+v, recorded %+v, want %+v", r, recorded, want)
			}
			fi, err := os.Stat(dst)
			if err != nil || fi.Mode() != 0o600 {
				t.Errorf("the clone's mode is %v (%v)", fi.Mode(), err)
			}
			checkClone(t, c, src, dst)
			if c.format == vm.Raw {
				write(t, dst, "the guest was here")
			}
			if hash(t, src, 64<<20) != before {
				t.Error("the base has changed")
			}
			leftOver(t, filepath.Dir(dst), "disk.img")
		})
	}
}

func checkClone(t *testing.T, c fsCase, src, dst string) {
	t.Helper()
	u, err := Measure(dst)
	if err != nil {
		t.Fatal(err)
	}
	switch c.kind {
	case Reflink:
		if u.Shared < 24<<20 || u.Own() > 1<<20 {
			t.Errorf("a reflinked clone: %+v", u)
		}
	case Overlay:
		if u.Allocated > 1<<20 {
			t.Errorf("an overlay takes %d bytes", u.Allocated)
		}
		qemuImg(t, "check", "-f", "qcow2", dst)
		info := qemuImg(t, "info", "-f", "qcow2", "--output=json", dst)
		for _, want := range []string{`"backing-filename": "../base.img"`, `"backing-filename-format": "raw"`, `"virtual-size": 25769803776`, `"compat": "1.1"`} {
			if info != "" && !strings.Contains(info, want) {
				t.Errorf("qemu-img info does not say %s: %s", want, info)
			}
		}
		qemuImg(t, "compare", "-f", "raw", "-F", "qcow2", src, dst)
		return
	case Copy:
		if u.Allocated < 24<<20 || u.Allocated > 32<<20 || u.Shared != 0 {
			t.Errorf("a copy: %+v", u)
		}
	}
	if u.Apparent != 24<<30 {
		t.Errorf("the clone has %d bytes", u.Apparent)
	}
	qemuImg(t, "compare", "-f", "raw", "-F", "raw", src, dst)
}

// The way a copy is made is the same on every file system, also where it is not the first choice.
func TestCopyContent(t *testing.T) {
	dir := t.TempDir()
	src := filepath.Join(dir, "src")
	f, err := os.Create(src)
	if err != nil {
		t.Fatal(err)
	}
	const size = 9<<20 + 512
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{0, 65535, 1 << 20, 3<<20 - 1, 5 << 20, size - 1} {
		if _, err := f.WriteAt([]byte{byte(at) | 1}, at); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.WriteAt(make([]byte, 2<<20), 6<<20); err != nil { // zeroes that are allocated
		t.Fatal(err)
	}
	f.Close()
	for _, size := range []int64{0, 1, 4096, 9<<20 + 512} {
		if err := os.Truncate(src, size); err != nil {
			t.Fatal(err)
		}
		dst := filepath.Join(dir, fmt.Sprint("dst", size))
		if r, err := Clone(t.Context(), src, dst, Options{only: Copy}); err != nil || r.Kind != Copy {
			t.Fatalf("Clone = %v, %v", r, err)
		}
		if a, b := hash(t, src, -1), hash(t, dst, -1); a != b {
			t.Errorf("%d bytes: the copy differs", size)
		}
		if err := os.Truncate(src, 9<<20+512); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCopyLeavesZeroesOut(t *testing.T) {
	dir := t.TempDir()
	src, dst := filepath.Join(dir, "src"), filepath.Join(dir, "dst")
	if err := os.WriteFile(src, make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Clone(t.Context(), src, dst, Options{only: Copy}); err != nil {
		t.Fatal(err)
	}
	if u, err := Stat(dst); err != nil || u.Apparent != 8<<20 || u.Allocated > 64<<10 {
		t.Errorf("a copy of zeroes: %+v, %v", u, err)
	}
}

func TestCloneRefuses(t *testing.T) {
	dir := t.TempDir()
	src := filepath.Join(dir, "base.img")
	disktest.Base(t, src, 8<<20, 2<<20)
	taken := filepath.Join(dir, "taken")
	write(t, taken, "somebody's disk")
	link := filepath.Join(dir, "link")
	if err := os.Symlink(src, link); err != nil {
		t.Fatal(err)
	}
	dangling := filepath.Join(dir, "dangling")
	if err := os.Symlink(filepath.Join(dir, "nowhere"), dangling); err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	boom := errors.New("boom")
	for name, c := range map[string]struct {
		ctx      context.Context
		src, dst string
		o        Options
		want     error
		kind     problem.Kind
	}{
		"dst exists":             {t.Context(), src, taken, Options{QCOW2: true}, nil, problem.Refused},
		"dst is a dangling link": {t.Context(), src, dangling, Options{QCOW2: true}, nil, problem.Refused},
		"no src":                 {t.Context(), filepath.Join(dir, "none"), filepath.Join(dir, "d"), Options{}, os.ErrNotExist, problem.Failed},
		"src is a link":          {t.Context(), link, filepath.Join(dir, "d"), Options{}, nil, problem.Failed},
		"src is a directory":     {t.Context(), dir, filepath.Join(dir, "d"), Options{}, nil, problem.Failed},
		"cancelled":              {gone, src, filepath.Join(dir, "d"), Options{}, context.Canceled, problem.Failed},
		"cannot be recorded":     {t.Context(), src, filepath.Join(dir, "d"), Options{Record: func(Result) error { return boom }}, boom, problem.Failed},
		"overlay of a qcow2":     {t.Context(), src, filepath.Join(dir, "d"), Options{QCOW2: true, Format: vm.QCOW2, only: Overlay}, vm.ErrUnsupported, problem.Failed},
		"no directory":           {t.Context(), src, filepath.Join(dir, "none", "d"), Options{}, os.ErrNotExist, problem.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Clone(c.ctx, c.src, c.dst, c.o)
			if err == nil || c.want != nil && !errors.Is(err, c.want) || problem.KindOf(err) != c.kind {
				t.Errorf("Clone: %v (%s)", err, problem.KindOf(err))
			}
			leftOver(t, dir, "base.img", "taken", "link", "dangling")
		})
	}
	if b, err := os.ReadFile(taken); err != nil || string(b) != "somebody's disk" {
		t.Errorf("the file that had the name is now %q, %v", b, err)
	}
}

func TestCopyCancelled(t *testing.T) {
	dir := t.TempDir()
	src := filepath.Join(dir, "base.img")
	disktest.Base(t, src, 64<<20, 8<<20)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Clone(ctx, src, filepath.Join(dir, "disk.img"), Options{only: Copy, pause: cancel})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Clone: %v", err)
	}
	leftOver(t, dir, "base.img")
}

// copyAndWait is the child of TestCopyKilled: it reports that a copy is half done and goes no further.
func copyAndWait(src string) {
	_, err := Clone(context.Background(), src, filepath.Join(filepath.Dir(src), "disk.img"), Options{only: Copy, pause: func() {
		fmt.Println("half")
		io.Copy(io.Discard, os.Stdin)
	}})
	fmt.Println("done", err)
	os.Exit(1)
}

func TestCopyKilled(t *testing.T) {
	dir := t.TempDir()
	src, dst := filepath.Join(dir, "base.img"), filepath.Join(dir, "disk.img")
	disktest.Base(t, src, 64<<20, 8<<20)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "DISK_TEST_COPY="+src)
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	stdout, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if line != "half\n" {
		t.Fatalf("the child said %q, %v", line, err)
	}
	if err := atomicfile.Sweep(dir); err != nil || count(t, dir) != 2 {
		t.Errorf("a sweep while the copy is made: %v, %d files", err, count(t, dir))
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	child.Wait()
	if _, err := os.Lstat(dst); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("after kill -9 there is a disk: %v", err)
	}
	// The next attempt removes what is left and succeeds.
	if _, err := Clone(t.Context(), src, dst, Options{only: Copy}); err != nil {
		t.Fatal(err)
	}
	leftOver(t, dir, "base.img", "disk.img")
	if hash(t, src, -1) != hash(t, dst, -1) {
		t.Error("the copy differs")
	}
}

func TestFullDisk(t *testing.T) {
	for _, unasked := range []bool{false, true} {
		t.Run(fmt.Sprintf("unasked=%v", unasked), func(t *testing.T) {
			dir := disktest.Mount(t, "ext4", 128<<20)
			src, dst := filepath.Join(t.TempDir(), "base.img"), filepath.Join(dir, "disk.img")
			disktest.Base(t, src, 1<<30, 140<<20)
			_, err := Clone(t.Context(), src, dst, Options{unasked: unasked})
			if err == nil || problem.HintOf(err) == "" || !strings.Contains(problem.HintOf(err), "ake room") {
				t.Errorf("Clone: %v; hint %q", err, problem.HintOf(err))
			}
			if unasked && !problem.IsFull(err) {
				t.Errorf("Clone: %v, want a full disk", err)
			}
			leftOver(t, dir, "lost+found")

			// Not even an overlay is begun when there is no room for the guest to write.
			free, err := Free(dst)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, free-reserve/2), 0o600); err != nil {
				t.Fatal(err)
			}
			if !unasked {
				_, err = Clone(t.Context(), src, dst, Options{QCOW2: true})
				if problem.HintOf(err) == "" {
					t.Errorf("overlay on a full disk: %v", err)
				}
				err = CreateHome(t.Context(), dst, 1<<30)
				if problem.HintOf(err) == "" {
					t.Errorf("home on a full disk: %v", err)
				}
				leftOver(t, dir, "lost+found", "ballast")
			}
		})
	}
}

// clonefile(2) is tried where it exists.
func TestClonefile(t *testing.T) {
	if runtime.GOOS != "darwin" {
		t.Skip("clonefile is a call of macOS")
	}
	dir := t.TempDir()
	src, dst := filepath.Join(dir, "base.img"), filepath.Join(dir, "disk.img")
	disktest.Base(t, src, 24<<30, 24<<20)
	r, err := Clone(t.Context(), src, dst, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if r != (Result{Clonefile, vm.Raw}) {
		t.Skipf("the temporary directory is not on APFS: the clone is a %s", r.Kind)
	}
	if fi, err := os.Stat(dst); err != nil || fi.Mode() != 0o600 {
		t.Errorf("the clone's mode is %v (%v)", fi.Mode(), err)
	}
	if hash(t, src, 64<<20) != hash(t, dst, 64<<20) {
		t.Error("the clone differs")
	}
	leftOver(t, dir, "base.img", "disk.img")
}

func hash(t *testing.T, path string, limit int64) (sum [32]byte) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	if limit < 0 {
		limit = 1 << 62
	}
	if _, err := io.Copy(h, io.LimitReader(f, limit)); err != nil {
		t.Fatal(err)
	}
	return [32]byte(h.Sum(nil))
}

func write(t *testing.T, path, s string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err == nil {
		_, err = f.WriteString(s)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

func count(t *testing.T, dir string) int {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

// leftOver fails the test when dir has anything but the named files.
func leftOver(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		ok := false
		for _, n := range names {
			ok = ok || n == e.Name()
		}
		if !ok {
			t.Errorf("%s is left in %s", e.Name(), dir)
		}
	}
}

func qemuImg(t *testing.T, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("qemu-img"); err != nil {
		t.Log("qemu-img is not installed: its opinion is not asked")
		return ""
	}
	out, err := exec.Command("qemu-img", args...).CombinedOutput()
	if err != nil {
		t.Errorf("qemu-img %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
