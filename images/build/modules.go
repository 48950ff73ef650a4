package build

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"

	"bromure.io/tui/internal/cpio"
	"bromure.io/tui/vm/guest"
)

// bootModules are what the guest's init needs before the root disk is mounted. Those that a
// kernel has built in, and those above it that optional names and that it does not have at all, are left out.
var bootModules = []struct {
	name     string
	optional bool
}{
	{"virtio_pci", false},
	{"virtio_blk", false},
	{"virtio_net", false},
	{"virtio_console", false},
	{"virtio_rng", false},
	{"vmw_vsock_virtio_transport", true},
	{"crc32c_generic", true}, // ext4 with metadata_csum asks for crc32c by a soft dependency
	{"ext4", false},
}

// moduleIndex is the content of a modules directory's index files: modprobe(8), depmod(8).
type moduleIndex struct {
	path    map[string]string   // module → file, relative to the directory
	needs   map[string][]string // module → modules that must be loaded before it
	builtin map[string]bool
}

// moduleName is the name by which a module is known: file names have dashes and underscores at random.
func moduleName(file string) string {
	name := path.Base(file)
	if i := strings.Index(name, ".ko"); i >= 0 {
		name = name[:i]
	}
	return strings.ReplaceAll(name, "-", "_")
}

// parseModules reads modules.dep and modules.builtin.
func parseModules(dep, builtin string) (*moduleIndex, error) {
	x := &moduleIndex{path: map[string]string{}, needs: map[string][]string{}, builtin: map[string]bool{}}
	for line := range strings.Lines(dep) {
		file, needs, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			return nil, fmt.Errorf("modules.dep: no colon in %q", line)
		}
		name := moduleName(file)
		x.path[name] = file
		for _, f := range strings.Fields(needs) {
			x.needs[name] = append(x.needs[name], moduleName(f))
		}
	}
	for line := range strings.Lines(builtin) {
		x.builtin[moduleName(strings.TrimSpace(line))] = true
	}
	return x, nil
}

// order lists the files of the wanted modules and of what they need, each after what it needs.
func (x *moduleIndex) order() ([]string, error) {
	var out []string
	done := map[string]bool{}
	var load func(name string, under []string) error
	load = func(name string, under []string) error {
		if done[name] || x.builtin[name] {
			return nil
		}
		if slices.Contains(under, name) {
			return fmt.Errorf("modules.dep: %s needs itself", name)
		}
		file, ok := x.path[name]
		if !ok {
			return fmt.Errorf("the kernel has no module %s", name)
		}
		for _, n := range x.needs[name] {
			if err := load(n, append(under, name)); err != nil {
				return err
			}
		}
		done[name] = true
		out = append(out, file)
		return nil
	}
	for _, m := range bootModules {
		if _, ok := x.path[m.name]; !ok && !x.builtin[m.name] && m.optional {
			continue
		}
		if err := load(m.name, nil); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// initrd makes the archive with the boot's modules and returns how many there are.
func initrd(t tree, release string) ([]byte, int, error) {
	base := "usr/lib/modules/" + release
	dep, err := t.read(base + "/modules.dep")
	if err != nil {
		return nil, 0, err
	}
	builtin, err := t.read(base + "/modules.builtin")
	if err != nil {
		return nil, 0, err
	}
	index, err := parseModules(dep, builtin)
	if err != nil {
		return nil, 0, err
	}
	files, err := index.order()
	if err != nil {
		return nil, 0, err
	}
	var buf bytes.Buffer
	w := cpio.NewWriter(&buf)
	top := path.Dir(guest.ModulesOrder)
	_ = w.Dir(path.Dir(top), 0o755) // errors stick
	_ = w.Dir(top, 0o755)
	var order strings.Builder
	for _, f := range files {
		data, err := t.read(path.Join(base, f))
		if err != nil {
			return nil, 0, err
		}
		ko := []byte(data)
		if !strings.HasSuffix(f, ".ko") {
			if ko, err = unpack(ko); err != nil {
				return nil, 0, fmt.Errorf("unpack %s: %w", f, err)
			}
		}
		name := moduleName(f) + ".ko"
		order.WriteString(name + "\n")
		_ = w.File(path.Join(top, name), 0o644, ko)
	}
	_ = w.File(guest.ModulesOrder, 0o644, []byte(order.String()))
	if err := w.Close(); err != nil {
		return nil, 0, err
	}
	return buf.Bytes(), len(files), nil
}
