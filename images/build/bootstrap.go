package build

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"bromure.io/tui/internal/problem"
)

// kernelDir is where the bootstrap leaves the kernel in its tree; see [kernelHook].
const kernelDir = "var/tmp/kernel"

// kernelHook runs on the host with the tree as $1. It unpacks the kernel's packages beside the system instead of installing them: so no
// package manager in the guest owns the booted kernel's modules, none can remove them, and
// neither an initramfs nor a boot loader comes along.
const kernelHook = `set -e
dir="$1/` + kernelDir + `"; mkdir -p "$dir/debs" "$dir/root"; cd "$dir/debs"
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
image=$(apt-cache depends --important %[1]s | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)$/\1/p' | head -n 1)
test -n "$image" || { echo "E: %[1]s depends on no kernel" >&2; exit 1; }
modules=$(apt-cache depends --important "$image" | sed -n 's/^ *Depends: \(linux-modules-[0-9].*\)$/\1/p')
apt-get -q -o APT::Sandbox::User=root download "$image" $modules >/dev/null
for deb in *.deb; do
	dpkg-deb -x "$deb" ../root
	dpkg-deb -W --showformat='${Package} ${Version}\n' "$deb" >>../packages
done
cd ..; rm -r debs
ls root/usr/lib/modules root/lib/modules 2>/dev/null | sed -n 's/^[0-9].*/&/p' | head -n 1 >release
chroot "$1" depmod -b "/` + kernelDir + `/root" "$(cat release)"
`

// bootstrap fetches and installs the packages and gives the resulting tree, an archive, to take.
// note gets what the program says while it works.
func (p *plan) bootstrap(ctx context.Context, note func(string), take func(io.Reader) error) error {
	bin, err := tool("mmdebstrap")
	if err != nil {
		return err
	}
	mode := "root"
	if os.Geteuid() != 0 {
		mode = "unshare"
		if _, err := tool("newuidmap"); err != nil {
			return err
		}
	}
	args := []string{
		"--mode=" + mode, "--variant=minbase", "--format=tar", "--architectures=" + p.arch,
		"--include=" + strings.Join(p.distro.packages, ","),
		"--dpkgopt=force-unsafe-io",
		"--customize-hook=" + fmt.Sprintf(kernelHook, p.kernel),
	}
	for _, o := range p.aptOptions(ctx) {
		args = append(args, "--aptopt="+o)
	}
	args = append(args, p.suite, "-")
	for _, s := range p.sources {
		args = append(args, s.line(p.keyring))
	}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive")
	cmd.SysProcAttr = childAttr()
	// mmdebstrap removes its tree when it gets SIGTERM.
	cmd.Cancel = func() error { return terminate(cmd.Process) }
	cmd.WaitDelay = 20 * time.Second
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	// The child's parent-death signal is bound to the thread that starts it (prctl(2)).
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start mmdebstrap: %w", err)
	}
	var said tail
	listened := make(chan struct{})
	go func() {
		defer close(listened)
		sc := bufio.NewScanner(io.TeeReader(stderr, &said))
		for sc.Scan() {
			if line, ok := strings.CutPrefix(sc.Text(), "I: "); ok {
				note(strings.TrimSuffix(line, "..."))
			}
		}
		_, _ = io.Copy(io.Discard, stderr) // a line that is too long ends the scan
	}()
	takeErr := take(stdout)
	if takeErr != nil {
		cancel(takeErr)
	} else {
		_, _ = io.Copy(io.Discard, stdout) // what follows the archive's end
	}
	<-listened
	err = cmd.Wait()
	switch {
	case context.Cause(ctx) != nil:
		return context.Cause(ctx)
	case err != nil:
		return p.explain(err, said.String())
	}
	return takeErr
}

// explain makes an error of what mmdebstrap said: its own errors and apt's, not the progress.
func (p *plan) explain(err error, said string) error {
	var lines []string
	for line := range strings.Lines(said) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "E: ") || strings.HasPrefix(line, "Err:") || strings.HasPrefix(line, "dpkg: error") {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		lines = strings.Split(strings.TrimSpace(said), "\n")
	}
	lines = lines[max(0, len(lines)-6):]
	err = fmt.Errorf("mmdebstrap: %w: %s", err, strings.Join(lines, "; "))
	switch {
	case strings.Contains(said, "/etc/subuid") || strings.Contains(said, "newuidmap"):
		return problem.Wrap(problem.Missing, err, "", "sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER")
	case strings.Contains(said, "No space left on device"):
		return problem.Wrap(problem.Failed, err, "", "Make room: a build needs about 2 GB where the images are and 1.5 GB in the temporary directory ($TMPDIR).")
	}
	return problem.Wrap(problem.Failed, err, "", fmt.Sprintf("Check that these answer: %s.", p.hosts()))
}

func (p *plan) hosts() string {
	var out []string
	for _, s := range p.sources {
		if uri := s.public().uri; !slices.Contains(out, uri) {
			out = append(out, uri)
		}
	}
	return strings.Join(out, ", ")
}

// aptOptions are the host's own settings about how to reach an archive (a proxy, certificates, the check of dates),
// which mmdebstrap would not know. They do not get into the image.
func (p *plan) aptOptions(ctx context.Context) []string {
	bin, err := tool("apt-config")
	if err != nil {
		return nil
	}
	out, err := exec.CommandContext(ctx, bin, "dump", "--no-empty", "--format", `%f "%v";%n`, "Acquire").Output()
	if err != nil {
		return nil
	}
	return pickAptOptions(string(out))
}

func pickAptOptions(dump string) []string {
	var out []string
	for line := range strings.Lines(dump) {
		line = strings.TrimSuffix(strings.TrimSpace(line), ";")
		key, _, _ := strings.Cut(line, " ")
		key = strings.ToLower(key)
		switch {
		case strings.Contains(key, "proxy-auto-detect"), strings.Contains(key, "proxyautodetect"): // a program of the host
		case strings.HasPrefix(key, "acquire::http::"), strings.HasPrefix(key, "acquire::https::"),
			key == "acquire::check-valid-until", key == "acquire::check-date", key == "acquire::retries":
			out = append(out, line)
		}
	}
	return out
}
