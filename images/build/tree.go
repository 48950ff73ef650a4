package build

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// kind is what sort of inode a node is. There are no devices, sockets or pipes in an image:
// the kernel's devtmpfs makes /dev.
type kind uint8

const (
	dir kind = iota
	file
	symlink
	hardlink
)

// node is one entry of a tree.
type node struct {
	kind     kind
	mode     uint32 // permission bits with set-uid, set-gid and sticky
	uid, gid int
	target   string // of a symlink, as it is; of a hardlink, a path of the tree
	xattrs   map[string]string
	mtime    time.Time

	// A file's content is data, or the host's file blob.
	data []byte
	blob string
	size int64
}

// tree is a root file system. Its keys are clean paths without a leading slash; the root is ".". Every
// node's parent is in it and is a directory.
type tree map[string]*node

// maxTree bounds what a bootstrap may give, in bytes of content: ten times what the recipes make.
const maxTree = 8 << 30

func newTree() tree { return tree{".": {kind: dir, mode: 0o755}} }

// readTar adds the entries of r. Contents are put into files below blobs, an existing directory.
func (t tree) readTar(r io.Reader, blobs string) error {
	tr := tar.NewReader(bufio.NewReaderSize(r, 1<<20))
	var total int64
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the bootstrap's archive: %w", err)
		}
		name := path.Clean(strings.TrimLeft(h.Name, "/"))
		if name == ".." || strings.HasPrefix(name, "../") || strings.ContainsAny(name, "\x00\n\r") {
			return fmt.Errorf("read the bootstrap's archive: unfit name %q", h.Name)
		}
		n := &node{mode: uint32(h.Mode & 0o7777), uid: h.Uid, gid: h.Gid, mtime: h.ModTime, xattrs: xattrs(h)}
		switch h.Typeflag {
		case tar.TypeDir:
			n.kind = dir
		case tar.TypeReg:
			n.kind, n.size = file, h.Size
			if total += h.Size; total > maxTree {
				return errors.New("read the bootstrap's archive: more than 8 GiB of files")
			}
			n.blob = filepath.Join(blobs, strconv.Itoa(len(t)))
			if err := writeBlob(n.blob, tr); err != nil {
				return fmt.Errorf("unpack %s: %w", name, err)
			}
		case tar.TypeSymlink:
			n.kind, n.target, n.mode = symlink, h.Linkname, 0o777
		case tar.TypeLink:
			n.kind, n.target = hardlink, path.Clean(strings.TrimLeft(h.Linkname, "/"))
			if to := t[n.target]; to == nil || to.kind != file {
				return fmt.Errorf("read the bootstrap's archive: %s is a link to %s, which is no file", name, n.target)
			}
		case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
			continue
		default:
			return fmt.Errorf("read the bootstrap's archive: %s has the unknown type %q", name, h.Typeflag)
		}
		if p := t[path.Dir(name)]; name != "." && (p == nil || p.kind != dir) {
			return fmt.Errorf("read the bootstrap's archive: %s comes before its directory", name)
		}
		t[name] = n
	}
}

// xattrs picks the extended attributes of a header that an image keeps: file capabilities.
func xattrs(h *tar.Header) map[string]string {
	const prefix, caps = "SCHILY.xattr.", "security.capability"
	if v, ok := h.PAXRecords[prefix+caps]; ok {
		return map[string]string{caps: v}
	}
	return nil
}

func writeBlob(name string, r io.Reader) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// paths lists the tree in an order in which parents come before children.
func (t tree) paths() []string { return slices.Sorted(maps.Keys(t)) }

// mkdir adds a directory and those above it; one that exists is left as it is.
func (t tree) mkdir(name string, mode uint32) {
	if t[name] != nil {
		return
	}
	t.mkdir(path.Dir(name), 0o755)
	t[name] = &node{kind: dir, mode: mode}
}

// put writes a file of root's, replacing what was there.
func (t tree) put(name string, mode uint32, content string) {
	t.mkdir(path.Dir(name), 0o755)
	t[name] = &node{kind: file, mode: mode, data: []byte(content), size: int64(len(content))}
}

// symlink makes a symbolic link, replacing what was there.
func (t tree) symlink(name, target string) {
	t.mkdir(path.Dir(name), 0o755)
	t[name] = &node{kind: symlink, mode: 0o777, target: target}
}

// edit rewrites a file that must exist.
func (t tree) edit(name string, change func(string) string) error {
	old, err := t.read(name)
	if err != nil {
		return err
	}
	n := *t[name]
	n.data = []byte(change(old))
	n.blob, n.size = "", int64(len(n.data))
	t[name] = &n
	return nil
}

// maxRead bounds a file that is read whole.
const maxRead = 256 << 20

// read returns the content of a file.
func (t tree) read(name string) (string, error) {
	n := t[name]
	if n == nil {
		return "", fmt.Errorf("%s: %w", name, os.ErrNotExist)
	}
	if n.kind == hardlink {
		return t.read(n.target)
	}
	if n.kind != file {
		return "", fmt.Errorf("%s is not a regular file", name)
	}
	if n.blob == "" {
		return string(n.data), nil
	}
	if n.size > maxRead {
		return "", fmt.Errorf("%s has %d bytes", name, n.size)
	}
	b, err := os.ReadFile(n.blob)
	return string(b), err
}

// remove takes away what is at name and below it.
func (t tree) remove(name string) {
	if n := t[name]; n == nil {
		return
	} else if n.kind == dir {
		t.empty(name)
	}
	delete(t, name)
}

// empty takes away what is below a directory.
func (t tree) empty(name string) {
	for p := range t {
		if strings.HasPrefix(p, name+"/") {
			delete(t, p)
		}
	}
}

// move puts a directory or file somewhere else, replacing what was there.
func (t tree) move(from, to string) error {
	if t[from] == nil {
		return fmt.Errorf("%s: %w", from, os.ErrNotExist)
	}
	t.remove(to)
	t.mkdir(path.Dir(to), 0o755)
	for p, n := range maps.Clone(t) {
		if p == from || strings.HasPrefix(p, from+"/") {
			t[to+p[len(from):]] = n
			delete(t, p)
		}
	}
	return nil
}

// checkLinks sees to it that every hard link points at a file that is still there.
func (t tree) checkLinks() error {
	for _, p := range t.paths() {
		if n := t[p]; n.kind == hardlink {
			if to := t[n.target]; to == nil || to.kind != file {
				return fmt.Errorf("%s is a link to %s, which is gone", p, n.target)
			}
		}
	}
	return nil
}

// glob lists the paths that match a pattern of [path.Match], sorted.
func (t tree) glob(pattern string) []string {
	var out []string
	for _, p := range t.paths() {
		if ok, _ := path.Match(pattern, p); ok {
			out = append(out, p)
		}
	}
	return out
}
