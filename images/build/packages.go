package build

import (
	"bufio"
	"errors"
	"fmt"
	"path"
	"strings"

	"bromure.io/tui/images"
)

type pkg = images.Package

// parseStatus reads the installed packages out of dpkg's status file.
func parseStatus(text string) []pkg {
	var out []pkg
	var p pkg
	installed := false
	flush := func() {
		if p.Name != "" && installed {
			out = append(out, p)
		}
		p, installed = pkg{}, false
	}
	sc := bufio.NewScanner(strings.NewReader(text))
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		k, v, _ := strings.Cut(sc.Text(), ": ")
		switch k {
		case "":
			flush()
		case "Package":
			p.Name = v
		case "Version":
			p.Version = v
		case "Status":
			installed = v == "install ok installed" || v == "hold ok installed"
		}
	}
	flush()
	return out
}

// kernelFiles is the kernel that a bootstrap fetched.
type kernelFiles struct {
	release  string
	packages []pkg
	image    []byte // as the package has it
}

// takeKernel moves the modules that [kernelHook] unpacked to where they belong and takes the kernel out.
func takeKernel(t tree) (kernelFiles, error) {
	var k kernelFiles
	release, err := t.read(kernelDir + "/release")
	if err != nil {
		return k, fmt.Errorf("find the kernel: %w", err)
	}
	if k.release = strings.TrimSpace(release); k.release == "" || path.Base(k.release) != k.release {
		return k, fmt.Errorf("find the kernel: its release is %q", k.release)
	}
	list, err := t.read(kernelDir + "/packages")
	if err != nil {
		return k, fmt.Errorf("find the kernel: %w", err)
	}
	for line := range strings.Lines(list) {
		if name, version, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			k.packages = append(k.packages, pkg{Name: name, Version: version})
		}
	}
	root := kernelDir + "/root"
	image, err := t.read(root + "/boot/vmlinuz-" + k.release)
	if err != nil {
		return k, fmt.Errorf("find the kernel: %w", err)
	}
	k.image = []byte(image)
	for _, lib := range []string{"usr/lib/modules", "lib/modules"} {
		from := root + "/" + lib + "/" + k.release
		if t[from] == nil {
			continue
		}
		if err := t.move(from, "usr/lib/modules/"+k.release); err != nil {
			return k, err
		}
		for _, link := range []string{"build", "source"} { // of the kernel's headers, which are not here
			t.remove("usr/lib/modules/" + k.release + "/" + link)
		}
		t.remove(kernelDir)
		return k, nil
	}
	return k, errors.New("find the kernel: its packages have no modules")
}
