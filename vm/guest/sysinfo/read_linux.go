package sysinfo

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"bromure.io/tui/vm/guest"
)

// maxProcFile bounds what is read of one small file in /proc, in bytes. /proc/stat of a machine with
// hundreds of CPUs and interrupts has some 50 KiB.
const maxProcFile = 1 << 20

// maxSocketFile bounds /proc/net/tcp: 150 bytes a connection, so 100,000 of them.
const maxSocketFile = 16 << 20

// Reader reads a system. The zero value reads the running one.
type Reader struct {
	Proc string // default /proc
	Root string // file system that [guest.Stats] calls root; default /
	Home string // default [guest.HomeDir]
}

func (r Reader) proc(elem ...string) string {
	return filepath.Join(append([]string{cmp.Or(r.Proc, "/proc")}, elem...)...)
}

func (r Reader) root() string { return cmp.Or(r.Root, "/") }
func (r Reader) home() string { return cmp.Or(r.Home, guest.HomeDir) }

// Stats is a reading of the system's load. What cannot be read is zero and in the error.
func (r Reader) Stats() (guest.Stats, error) {
	var s guest.Stats
	var errs []error
	read := func(name string, parse func([]byte) error) {
		b, err := readBounded(r.proc(name), maxProcFile)
		if err == nil {
			err = parse(b)
		}
		errs = append(errs, err)
	}
	read("uptime", func(b []byte) (err error) {
		s.Uptime, err = parseUptime(b)
		return err
	})
	read("loadavg", func(b []byte) error {
		l, err := parseLoad(b)
		s.Load1, s.Load5, s.Load15 = l[0], l[1], l[2]
		return err
	})
	read("stat", func(b []byte) (err error) {
		s.CPUBusy, s.CPUs, err = parseCPU(b)
		return err
	})
	read("meminfo", func(b []byte) error {
		total, available, err := parseMemory(b)
		s.MemTotal, s.MemUsed = total, total-available
		return err
	})
	pids, err := r.processes()
	s.Processes = len(pids)
	errs = append(errs, err)
	s.RootTotal, s.RootUsed, err = usage(r.root())
	errs = append(errs, err)
	s.HomeTotal, s.HomeUsed, err = usage(r.home())
	errs = append(errs, err)
	return s, errors.Join(errs...)
}

func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return b, nil
}

// usage is the size of the file system that holds path and how much of it is taken, in bytes.
func usage(path string) (total, used int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, 0, fmt.Errorf("look at the file system of %s: %w", path, err)
	}
	return int64(st.Blocks) * int64(st.Bsize), int64(st.Blocks-st.Bfree) * int64(st.Bsize), nil
}

func (r Reader) processes() ([]int, error) {
	d, err := os.Open(r.proc())
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var pids []int
	for _, n := range names {
		if pid, ok := isPID(n); ok {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids, nil
}

// Ports lists the listening TCP sockets, by port, with the process that has each. Those of the processes in
// except are left out: the caller is no news to itself.
func (r Reader) Ports(except ...int) ([]guest.Port, error) {
	ports := []guest.Port{} // none is an empty list in JSON
	inodes := make(map[uint64][]int)
	for _, proto := range []string{"tcp", "tcp6"} {
		sockets, err := r.sockets(proto)
		if errors.Is(err, os.ErrNotExist) { // IPv6 can be absent
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, s := range sockets {
			inodes[s.inode] = append(inodes[s.inode], len(ports))
			ports = append(ports, guest.Port{
				Proto:    proto,
				Address:  s.addr.Addr().String(),
				Port:     int(s.addr.Port()),
				Loopback: s.addr.Addr().Unmap().IsLoopback(),
			})
		}
	}
	r.owners(inodes, ports)
	ports = slices.DeleteFunc(ports, func(p guest.Port) bool {
		return p.PID != 0 && slices.Contains(except, p.PID)
	})
	slices.SortFunc(ports, func(a, b guest.Port) int {
		return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Proto, b.Proto), cmp.Compare(a.Address, b.Address))
	})
	return ports, nil
}

func (r Reader) sockets(proto string) ([]socket, error) {
	f, err := os.Open(r.proc("net", proto))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parseSockets(io.LimitReader(f, maxSocketFile))
}

// owners fills in who has the sockets, the lowest process number where several share one. Processes come and go meanwhile, so
// what cannot be read is passed over.
func (r Reader) owners(inodes map[uint64][]int, ports []guest.Port) {
	pids, err := r.processes()
	if err != nil {
		return
	}
	for _, pid := range pids {
		if len(inodes) == 0 {
			return
		}
		dir := r.proc(fmt.Sprint(pid), "fd")
		d, err := os.Open(dir)
		if err != nil {
			continue
		}
		names, _ := d.Readdirnames(-1)
		d.Close()
		for _, n := range names {
			target, err := os.Readlink(filepath.Join(dir, n))
			if err != nil {
				continue
			}
			inode, ok := parseSocketLink(target)
			if !ok || inodes[inode] == nil {
				continue
			}
			comm, _ := readBounded(r.proc(fmt.Sprint(pid), "comm"), 64)
			for _, i := range inodes[inode] {
				ports[i].PID = pid
				ports[i].Process = strings.ToValidUTF8(strings.TrimSuffix(string(comm), "\n"), "?")
			}
			delete(inodes, inode)
		}
	}
}

// Hello is what the guest says of itself.
func (r Reader) Hello(booted bool) (guest.Hello, error) {
	kernel, err := readBounded(r.proc("sys/kernel/osrelease"), 256)
	id, err2 := readBounded(r.proc("sys/kernel/random/boot_id"), 256)
	return guest.Hello{
		Version: guest.Version,
		Kernel:  strings.TrimSpace(string(kernel)),
		BootID:  strings.TrimSpace(string(id)),
		Booted:  booted,
	}, errors.Join(err, err2)
}
