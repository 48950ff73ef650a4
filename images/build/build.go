package build

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"bromure.io/tui/images"
	"bromure.io/tui/images/store"
	"bromure.io/tui/internal/atomicfile"
	"bromure.io/tui/internal/layout"
	"bromure.io/tui/internal/problem"
)

// The steps of a build, in their order.
const (
	StepPackages = "packages"  // fetched and installed by mmdebstrap
	StepSystem   = "system"    // turned into a workspace's system
	StepKernel   = "kernel"    // unpacked, with the boot's modules
	StepDisk     = "disk"      // the file system, written and checked
	StepSums     = "checksums" // of the files
	StepKeep     = "keep"      // written through to the disk and put into place
)

// Steps lists them.
var Steps = []string{StepPackages, StepSystem, StepKernel, StepDisk, StepSums, StepKeep}

// Options say what to build.
type Options struct {
	ImagesDir string         // layout.Root's Images
	Distro    string         // "debian" or "ubuntu"; empty: the host's own
	Suite     string         // empty: the host's own, or the newest that is known
	Progress  func(Progress) // may be nil; is called by one goroutine at a time
}

// Progress says how a build comes along.
type Progress struct {
	Step     string
	Note     string        // what it is doing or, with Finished, what came out; may be empty
	Finished bool          // the step is done
	Took     time.Duration // with Finished
}

// Run builds an image and returns its reference. When one with the same content is there already, that one stays. A build that
// fails or is cut short, however hard, leaves no image; what it leaves otherwise, the next build removes.
func Run(ctx context.Context, o Options) (images.Ref, error) {
	ref, err := run(ctx, o)
	switch {
	case err == nil:
		return ref, nil
	case ctx.Err() != nil:
		return "", problem.Wrap(problem.Interrupted, err, "build the image", "")
	case errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), "No space left on device"):
		return "", problem.Wrap(problem.Failed, err, "build the image",
			"Make room: a build needs about 1 GB below "+o.ImagesDir+" and 1 GB in the temporary directory ($TMPDIR).")
	}
	return "", fmt.Errorf("build the image: %w", err)
}

func run(ctx context.Context, o Options) (images.Ref, error) {
	p, err := makePlan(os.DirFS("/"), o.Distro, o.Suite, runtime.GOARCH)
	if err != nil {
		return "", err
	}
	for name := range tools { // before anything is fetched
		if name == "newuidmap" && os.Geteuid() == 0 {
			continue
		}
		if _, err := tool(name); err != nil {
			return "", err
		}
	}
	site, err := openSite(o.ImagesDir)
	if err != nil {
		return "", err
	}
	defer site.close()
	b := &builder{plan: p, site: site, out: o.Progress, size: images.LogicalSize}
	b.fetch = func(ctx context.Context, note func(string), take func(io.Reader) error) error {
		return p.bootstrap(ctx, site.scratch, note, take)
	}
	return b.run(ctx)
}

// builder is one build at work.
type builder struct {
	*plan
	*site
	out   func(Progress)
	fetch func(ctx context.Context, note func(string), take func(io.Reader) error) error // bootstrap, or a test's
	size  int64                                                                          // of the disk as it appears, bytes

	step  string
	began time.Time
}

func (b *builder) begin(step string) {
	b.step, b.began = step, time.Now()
	b.tell(Progress{Step: step})
}

func (b *builder) note(text string) { b.tell(Progress{Step: b.step, Note: text}) }

func (b *builder) finish(format string, args ...any) {
	b.tell(Progress{Step: b.step, Note: fmt.Sprintf(format, args...), Finished: true, Took: time.Since(b.began)})
}

func (b *builder) tell(p Progress) {
	if b.out != nil {
		b.out(p)
	}
}

func (b *builder) run(ctx context.Context) (images.Ref, error) {
	t := newTree()
	b.begin(StepPackages)
	b.note(fmt.Sprintf("%s %s from %s", b.distro.id, b.suite, b.hosts()))
	if err := b.fetch(ctx, b.note, func(r io.Reader) error { return t.readTar(r, b.scratch) }); err != nil {
		return "", err
	}
	b.finish("")

	b.begin(StepSystem)
	kernel, packages, err := clean(t)
	if err != nil {
		return "", fmt.Errorf("make the system: %w", err)
	}
	epoch, err := packageTime(t)
	if err != nil {
		return "", fmt.Errorf("make the system: %w", err)
	}
	if err := b.configure(t, kernel, epoch); err != nil {
		return "", fmt.Errorf("make the system: %w", err)
	}
	if err := t.checkLinks(); err != nil {
		return "", fmt.Errorf("make the system: %w", err)
	}
	b.finish("%d packages, %d files, as of %s", len(packages), len(t), epoch.Format(time.DateOnly))

	b.begin(StepKernel)
	image, err := bootable(kernel.image, b.arch)
	if err != nil {
		return "", err
	}
	archive, modules, err := initrd(t, kernel.release)
	if err != nil {
		return "", fmt.Errorf("make the initrd: %w", err)
	}
	dir := layout.ImageDir(b.dir)
	if err := writeFile(dir.Kernel(), image); err != nil {
		return "", err
	}
	if err := writeFile(dir.Initrd(), archive); err != nil {
		return "", err
	}
	b.finish("%s, %d modules", kernel.release, modules)

	b.begin(StepDisk)
	fs := filesystem{size: b.size, label: "root", uuid: uuid(packages), epoch: epoch}
	if err := fs.write(ctx, dir.Base(), t, b.scratch); err != nil {
		return "", fmt.Errorf("make the disk: %w", err)
	}
	b.finish("")

	b.begin(StepSums)
	files, err := b.sums(ctx)
	if err != nil {
		return "", err
	}
	ref, err := images.ContentRef(b.distro.id, b.release, files)
	if err != nil {
		return "", err
	}
	b.finish("%s", ref)

	b.begin(StepKeep)
	kept, err := b.keep(images.Manifest{
		Version: images.ManifestVersion, Ref: ref, Distro: b.distro.id, Suite: b.suite, Release: b.release, Architecture: b.arch,
		Kernel: kernel.release, Created: time.Now().UTC().Truncate(time.Second), Source: "built", Packages: packages, Files: files,
	})
	if err != nil {
		return "", fmt.Errorf("keep image %s: %w", ref, err)
	}
	if kept {
		b.finish("%s is new", ref)
	} else {
		b.finish("%s was there already, with the same content", ref)
	}
	return ref, nil
}

// sums hashes the image's files.
func (b *builder) sums(ctx context.Context) ([]images.File, error) {
	var out []images.File
	for _, name := range images.FileNames {
		file := filepath.Join(b.dir, name)
		fi, err := os.Stat(file)
		if err != nil {
			return nil, err
		}
		last := -1
		sum, err := store.Sum(ctx, file, func(done int64) {
			if percent := int(100 * done / fi.Size()); percent/10 > last/10 || last < 0 {
				last = percent
				b.note(fmt.Sprintf("%s: %d %%", name, percent))
			}
		})
		if err != nil {
			return nil, err
		}
		out = append(out, images.File{Name: name, Size: fi.Size(), SHA256: sum, Stored: store.Allocated(fi)})
	}
	return out, nil
}

// uuid identifies the file system by what is in it, in the form of RFC 9562, version 8.
func uuid(packages []pkg) string {
	h := sha256.New()
	for _, p := range packages {
		fmt.Fprintf(h, "%s %s\n", p.Name, p.Version)
	}
	u := h.Sum(nil)[:16]
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", u[:4], u[4:6], u[6:8], u[8:10], u[10:])
}

// writeFile writes a file of the image, read-only.
func writeFile(name string, data []byte) error {
	return atomicfile.Write(name, data, layout.BaseMode)
}
