package build

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bromure.io/tui/images"
	"bromure.io/tui/images/store"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
)

// archive is what a bootstrap that made tr would print. Directories come first, in the order that tar has them in.
func archive(t *testing.T, tr tree) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, p := range tr.paths() {
		n := tr[p]
		h := tar.Header{Name: "./" + p, Mode: int64(n.mode), Uid: n.uid, Gid: n.gid, ModTime: n.mtime, Linkname: n.target}
		switch n.kind {
		case dir:
			h.Typeflag = tar.TypeDir
		case file:
			h.Typeflag, h.Size = tar.TypeReg, n.size
		case symlink:
			h.Typeflag = tar.TypeSymlink
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(n.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// buildSmall runs a whole build of the archive given, on a small disk.
func buildSmall(ctx context.Context, t *testing.T, imagesDir string, fetched []byte, change func(*builder)) (images.Ref, error) {
	t.Helper()
	p, err := makePlan(debianHost(), "", "", "amd64")
	if err != nil {
		t.Fatal(err)
	}
	s, err := openSite(imagesDir)
	if err != nil {
		return "", err
	}
	defer s.close()
	b := &builder{plan: p, site: s, size: 32 << 20, fetch: func(ctx context.Context, note func(string), take func(io.Reader) error) error {
		return take(bytes.NewReader(fetched))
	}}
	if change != nil {
		change(b)
	}
	return b.run(ctx)
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestBuild(t *testing.T) {
	requireE2fsprogs(t)
	dir := filepath.Join(t.TempDir(), "images")
	fetched := archive(t, bootstrapped(t))
	var told []Progress
	ref, err := buildSmall(context.Background(), t, dir, fetched, func(b *builder) { b.out = func(p Progress) { told = append(told, p) } })
	if err != nil {
		t.Fatal(err)
	}
	st := store.Store{Dir: dir}
	if err := st.Verify(context.Background(), ref, nil); err != nil {
		t.Error(err)
	}
	m, err := st.Newest()
	if err != nil {
		t.Fatal(err)
	}
	if m.Ref != ref || m.Kernel != "6.1.0-57-cloud-amd64" || m.Distro != "debian" || m.Release != "12" || len(m.Packages) != 3 || m.Source != "built" {
		t.Errorf("%+v", m)
	}
	if !strings.HasPrefix(string(ref), "debian-12-") {
		t.Errorf("its reference is %s", ref)
	}
	for _, name := range append(images.FileNames, "manifest.json") {
		fi, err := os.Stat(filepath.Join(dir, string(ref), name))
		if err != nil || fi.Mode() != layout.BaseMode {
			t.Errorf("%s: %v, %v", name, fi.Mode(), err)
		}
	}
	if got := ask(t, string(st.Path(ref).Base()), "cat /home/ubuntu/.bashrc"); got != "# bashrc\n" {
		t.Errorf("the disk's .bashrc is %q", got)
	}
	initrd := read(t, string(st.Path(ref).Initrd()))
	for _, want := range []string{"bromure/modules/order\x00", "virtio_ring.ko\nvirtio_pci.ko\nvirtio_blk.ko\n", "module virtio_blk"} {
		if !bytes.Contains(initrd, []byte(want)) {
			t.Errorf("the initrd does not have %q", want)
		}
	}
	var finished []string
	for _, p := range told {
		if p.Finished {
			finished = append(finished, p.Step)
		}
	}
	if d := cmp.Diff(Steps, finished); d != "" {
		t.Error(d)
	}

	// The same packages on another day and another disk: the same image, which stays.
	first := m.Created
	again, err := buildSmall(context.Background(), t, dir, fetched, nil)
	if err != nil || again != ref {
		t.Errorf("built again: %s, %v", again, err)
	}
	if m, err = st.Get(ref); err != nil || !m.Created.Equal(first) {
		t.Errorf("the image was replaced: %v, %v", m.Created, err)
	}
	if d := cmp.Diff([]string{layout.BuildLock, string(ref)}, names(t, dir)); d != "" {
		t.Error(d)
	}

	// One that is broken gives way.
	if err := os.Chmod(string(st.Path(ref).Kernel()), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(string(st.Path(ref).Kernel()), 5); err != nil {
		t.Fatal(err)
	}
	if again, err = buildSmall(context.Background(), t, dir, fetched, nil); err != nil || again != ref {
		t.Errorf("built over a broken one: %s, %v", again, err)
	}
	if err := st.Verify(context.Background(), ref, nil); err != nil {
		t.Error(err)
	}
}

// A build that fails or is cut at any step leaves nothing but the lock's file.
func TestCutBuilds(t *testing.T) {
	requireE2fsprogs(t)
	fetched := archive(t, bootstrapped(t))
	for _, step := range Steps {
		ctx, cancel := context.WithCancelCause(context.Background())
		dir := t.TempDir()
		cut := errors.New("cut")
		ref, err := buildSmall(ctx, t, dir, fetched, func(b *builder) {
			b.out = func(p Progress) {
				if p.Step == step {
					cancel(cut)
				}
			}
		})
		// The last steps are too short to be cut: then there is a whole image.
		if err == nil {
			if verr := (store.Store{Dir: dir}).Verify(context.Background(), ref, nil); verr != nil {
				t.Errorf("cut at %s: half an image: %v", step, verr)
			}
			if step != StepKeep {
				t.Errorf("cut at %s: not noticed", step)
			}
			continue
		}
		if !errors.Is(err, cut) {
			t.Errorf("cut at %s: %v", step, err)
		}
		if d := cmp.Diff([]string{layout.BuildLock}, names(t, dir)); d != "" {
			t.Errorf("cut at %s: %s", step, d)
		}
	}

	dir := t.TempDir()
	broken := errors.New("the network is down")
	_, err := buildSmall(context.Background(), t, dir, nil, func(b *builder) {
		b.fetch = func(ctx context.Context, note func(string), take func(io.Reader) error) error {
			if err := take(bytes.NewReader(fetched[:len(fetched)/2])); err == nil {
				t.Error("half an archive was taken")
			}
			return broken
		}
	})
	if !errors.Is(err, broken) {
		t.Error(err)
	}
	if d := cmp.Diff([]string{layout.BuildLock}, names(t, dir)); d != "" {
		t.Error(d)
	}
}

func TestSecondBuildIsRefused(t *testing.T) {
	dir := t.TempDir()
	s, err := openSite(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openSite(dir); problem.KindOf(err) != problem.Refused || problem.HintOf(err) == "" {
		t.Errorf("a second build beside the first: %v", err)
	}
	s.close()
	if s, err = openSite(dir); err != nil {
		t.Fatal(err)
	}
	s.close()
}

// TestKilledBuild kills a build in the middle, as kill -9 does: no image is there, and the next build sweeps up.
func TestKilledBuild(t *testing.T) {
	requireE2fsprogs(t)
	fetched := archive(t, bootstrapped(t))
	if dir := os.Getenv("BROMURE_TEST_KILLED_BUILD"); dir != "" {
		_, err := buildSmall(context.Background(), t, dir, fetched, func(b *builder) {
			b.out = func(p Progress) {
				if p.Step == StepSums {
					_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				}
			}
		})
		t.Fatalf("survived its kill: %v", err)
	}
	dir := t.TempDir()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p, err := os.StartProcess(exe, []string{exe, "-test.run=^TestKilledBuild$"}, &os.ProcAttr{Env: append(os.Environ(), "BROMURE_TEST_KILLED_BUILD="+dir)})
	if err != nil {
		t.Fatal(err)
	}
	state, err := p.Wait()
	if err != nil || state.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the build ended with %v, %v", state, err)
	}
	if len(names(t, dir)) < 2 {
		t.Fatalf("the killed build left nothing to sweep: %v", names(t, dir))
	}
	good, broken, err := (store.Store{Dir: dir}).Scan()
	if len(good)+len(broken) != 0 || err != nil {
		t.Errorf("it left images: %v %v %v", good, broken, err)
	}
	ref, err := buildSmall(context.Background(), t, dir, fetched, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{layout.BuildLock, string(ref)}, names(t, dir)); d != "" {
		t.Error(d)
	}
}
