package build

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

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

// stages are what mmdebstrap says when it begins something that takes time.
var stages = []struct{ said, note string }{
	{"I: running apt-get update", "reading the package lists"},
	{"I: downloading packages", "downloading packages"},
	{"I: extracting archives", "unpacking the essential packages"},
	{"I: installing essential packages", "installing the essential packages"},
	{"I: installing remaining packages", "installing the other packages"},
	{"I: running --customize-hook", "fetching the kernel"},
	{"I: creating tarball", "reading the result"},
}

// bootstrap fetches and installs the packages and gives the resulting tree, an archive, to take.
// note gets what it does meanwhile. Files that mmdebstrap reads are put into scratch.
func (p *plan) bootstrap(ctx context.Context, scratch string, note func(string), take func(io.Reader) error) error {
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
	// Files, since addresses may have passwords in them and everybody may read a command line.
	if options := p.aptOptions(ctx); options != "" {
		conf := filepath.Join(scratch, "apt.conf")
		if err := os.WriteFile(conf, []byte(options), 0o600); err != nil {
			return err
		}
		args = append(args, "--aptopt="+conf)
	}
	var sources strings.Builder
	for _, s := range p.sources {
		sources.WriteString(s.line(p.keyring) + "\n")
	}
	list := filepath.Join(scratch, "sources.list")
	if err := os.WriteFile(list, []byte(sources.String()), 0o600); err != nil {
		return err
	}
	args = append(args, p.suite, "-", list)

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	said := listener{note: note}
	cmd, err := onLeash(ctx, &said, bin, args...)
	if err != nil {
		return err
	}
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive")
	pr, pw := io.Pipe()
	cmd.Stdout = pw
	taken := make(chan error, 1)
	go func() {
		err := take(pr)
		if err == nil {
			_, _ = io.Copy(io.Discard, pr) // what follows the archive's end
		} else {
			cancel(err)
		}
		_ = pr.CloseWithError(err)
		taken <- err
	}()
	err = cmd.run()
	cut := context.Cause(ctx) // before take learns of the end: what it says then is only a consequence
	_ = pw.Close()
	takeErr := <-taken
	switch {
	case cut != nil:
		return cut
	case err != nil:
		return p.explain(err, said.String())
	}
	return takeErr
}

// listener hears what mmdebstrap says: it keeps the end and notes the stages.
type listener struct {
	tail
	line []byte // not ended yet
	note func(string)
}

func (l *listener) Write(p []byte) (int, error) {
	_, _ = l.tail.Write(p)
	for _, c := range p {
		if c != '\n' {
			if len(l.line) < 256 { // no stage's name is longer
				l.line = append(l.line, c)
			}
			continue
		}
		for _, s := range stages {
			if strings.HasPrefix(string(l.line), s.said) {
				l.note(s.note)
			}
		}
		l.line = l.line[:0]
	}
	return len(p), nil
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
	if strings.Contains(said, "/etc/subuid") || strings.Contains(said, "newuidmap") {
		return problem.Wrap(problem.Missing, err, "", "sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER")
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
func (p *plan) aptOptions(ctx context.Context) string {
	bin, err := tool("apt-config")
	if err != nil {
		return ""
	}
	out, err := exec.CommandContext(ctx, bin, "dump", "--no-empty", "--format", `%f "%v";%n`, "Acquire").Output()
	if err != nil {
		return ""
	}
	return pickAptOptions(string(out))
}

func pickAptOptions(dump string) string {
	var out strings.Builder
	for line := range strings.Lines(dump) {
		key, _, _ := strings.Cut(line, " ")
		key = strings.ToLower(key)
		switch {
		case strings.Contains(key, "proxy-auto-detect"), strings.Contains(key, "proxyautodetect"): // a program of the host
		case strings.HasPrefix(key, "acquire::http::"), strings.HasPrefix(key, "acquire::https::"),
			key == "acquire::check-valid-until", key == "acquire::check-date", key == "acquire::retries":
			out.WriteString(line)
		}
	}
	return out.String()
}
