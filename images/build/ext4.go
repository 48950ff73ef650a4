package build

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// filesystem says how a tree becomes a disk. The same values and tree give the same bytes.
type filesystem struct {
	size  int64
	label string
	uuid  string // also the seed of the directory hashes
	epoch time.Time
}

// mke2fsConf stands in for the host's mke2fs.conf(5), so that the disk does not depend on it. The features are those that
// every kernel an image may have can mount.
const mke2fsConf = `[defaults]
	base_features = has_journal,ext_attr,resize_inode,dir_index,filetype,sparse_super,large_file
	default_mntopts = acl,user_xattr
	blocksize = 4096
	inode_size = 256
	inode_ratio = 16384
[fs_types]
	ext4 = {
		features = extent,huge_file,flex_bg,metadata_csum,64bit,dir_nlink,extra_isize
	}
`

// mke2fs: no block is reserved for root, since a full disk of a workspace harms only itself. The image is a fresh
// sparse file, so inode tables and journal are zero as they are: with assume_storage_prezeroed neither mke2fs nor, later,
// the guest's kernel writes them (mke2fs(8)). That needs e2fsprogs 1.47; older ones leave the inode tables to the kernel.
func (fs filesystem) mke2fs(ctx context.Context, disk, scratch string, prezeroed bool) error {
	conf := filepath.Join(scratch, "mke2fs.conf")
	if err := os.WriteFile(conf, []byte(mke2fsConf), 0o600); err != nil {
		return err
	}
	extended := "lazy_itable_init=1,lazy_journal_init=1,nodiscard,root_owner=0:0,hash_seed=" + fs.uuid
	if prezeroed {
		extended += ",assume_storage_prezeroed=1"
	}
	return fs.run(ctx, conf, nil, "mke2fs", "-q", "-F", "-t", "ext4", "-m", "0", "-L", fs.label, "-U", fs.uuid, "-E", extended, disk)
}

// write makes the disk. Files of the tree that are in memory pass through scratch.
//
// debugfs fills it and not "mke2fs -d": that one takes owners, change times and the order of the
// entries from a tree on the host, so it needs root and gives other bytes on another file system.
func (fs filesystem) write(ctx context.Context, disk string, t tree, scratch string) error {
	f, err := os.OpenFile(disk, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := f.Truncate(fs.size); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := fs.mke2fs(ctx, disk, scratch, true); err != nil {
		if err := fs.mke2fs(ctx, disk, scratch, false); err != nil {
			return err
		}
	}
	script := filepath.Join(scratch, "debugfs-commands")
	if err := writeScript(script, t, scratch); err != nil {
		return err
	}
	if err := fs.run(ctx, "", debugfsComplaints, "debugfs", "-w", "-f", script, disk); err != nil {
		return err
	}
	// debugfs goes on after an error and its exit status does not tell: look for ourselves.
	if err := fs.run(ctx, "", nil, "e2fsck", "-f", "-n", disk); err != nil {
		return fmt.Errorf("check the new file system: %w", err)
	}
	return nil
}

// run starts a tool of e2fsprogs with the clock stopped at fs.epoch and conf in place of the host's configuration.
// complaints, where given, picks from stderr what is an error.
func (fs filesystem) run(ctx context.Context, conf string, complaints func(string) string, name string, args ...string) error {
	bin, err := tool(name)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, bin, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "E2FSPROGS_FAKE_TIME="+strconv.FormatInt(fs.epoch.Unix(), 10), "MKE2FS_CONFIG="+conf, "E2FSCK_CONFIG=/dev/null")
	var stdout tail
	var stderr head
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	said := strings.TrimSpace(stderr.String())
	if complaints != nil {
		said = complaints(said)
		if err == nil && said != "" {
			err = fmt.Errorf("it complained")
		}
	}
	if err != nil {
		if said == "" || name == "e2fsck" {
			said = strings.TrimSpace(stdout.String() + "\n" + said)
		}
		return fmt.Errorf("%s: %w: %s", name, err, said)
	}
	return nil
}

// debugfsComplaints drops the version, which debugfs writes to stderr at each start.
func debugfsComplaints(stderr string) string {
	var out []string
	for line := range strings.Lines(stderr) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "debugfs 1.") {
			out = append(out, line)
		}
	}
	if len(out) > 3 { // it goes on after an error: the others are consequences
		out = append(out[:3], "and so on")
	}
	return strings.Join(out, "; ")
}

// writeScript writes the commands by which debugfs makes the tree. debugfs's own write, ln and symlink make names in its
// current directory only, hence the cd.
func writeScript(name string, t tree, scratch string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	err = script(w, t, scratch)
	if err == nil {
		err = w.Flush()
	}
	if err2 := f.Close(); err == nil {
		err = err2
	}
	return err
}

func script(w io.Writer, t tree, scratch string) error {
	links := map[string]int{}
	for _, n := range t {
		if n.kind == hardlink {
			links[n.target]++
		}
	}
	cwd, extra := ".", 0
	blob := func(data []byte) (string, error) {
		extra++
		name := filepath.Join(scratch, "inline-"+strconv.Itoa(extra))
		return name, writeBlob(name, bytes.NewReader(data))
	}
	for _, p := range t.paths() {
		n := t[p]
		base := path.Base(p)
		if d := path.Dir(p); p != "." && d != cwd {
			fmt.Fprintf(w, "cd %s\n", quote("/"+d))
			cwd = d
		}
		switch n.kind {
		case dir:
			if p != "." && p != "lost+found" {
				fmt.Fprintf(w, "mkdir %s\n", quote(base))
			}
			setInode(w, base, n, 0o040000)
		case file:
			src := n.blob
			if src == "" {
				var err error
				if src, err = blob(n.data); err != nil {
					return err
				}
			}
			fmt.Fprintf(w, "write %s %s\n", quote(src), quote(base))
			setInode(w, base, n, 0o100000)
			if links[p] > 0 {
				fmt.Fprintf(w, "sif %s links_count %d\n", quote(base), 1+links[p])
			}
		case symlink:
			fmt.Fprintf(w, "symlink %s %s\n", quote(base), quote(n.target))
			setInode(w, base, n, 0)
		}
		for name, v := range n.xattrs { // one at most, see xattrs
			src, err := blob([]byte(v))
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "ea_set -f %s %s %s\n", quote(src), quote(base), name)
		}
	}
	for _, p := range t.paths() { // the files they are links to exist by now
		if n := t[p]; n.kind == hardlink {
			if d := path.Dir(p); d != cwd {
				fmt.Fprintf(w, "cd %s\n", quote("/"+d))
				cwd = d
			}
			fmt.Fprintf(w, "ln %s %s\n", quote("/"+n.target), quote(path.Base(p)))
		}
	}
	return nil
}

// setInode sets what debugfs does not take from its arguments. Symlinks get an owner only.
func setInode(w io.Writer, name string, n *node, format uint32) {
	if format != 0 {
		fmt.Fprintf(w, "sif %s mode 0%o\n", quote(name), format|n.mode)
	}
	if n.uid != 0 {
		fmt.Fprintf(w, "sif %s uid %d\n", quote(name), n.uid)
	}
	if n.gid != 0 {
		fmt.Fprintf(w, "sif %s gid %d\n", quote(name), n.gid)
	}
}

// quote makes one argument for debugfs (its libss): in quotes, a quote doubled.
func quote(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }
