package build

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os/exec"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/ulikunitz/xz"

	"bromure.io/tui/internal/problem"
)

// maxKernel bounds what a kernel or a module may unpack to, in bytes.
const maxKernel = 256 << 20

// bootable turns a distribution's kernel file into what a hypervisor loads at once: on amd64 the ELF vmlinux
// out of the bzImage, which QEMU enters by its PVH note and which then needs not unpack itself; on arm64 the Image.
func bootable(file []byte, arch string) ([]byte, error) {
	if arch == "amd64" {
		return vmlinux(file)
	}
	return arm64Image(file)
}

// vmlinux unpacks the payload of a bzImage: Documentation/arch/x86/boot.rst in the kernel's sources
// has the header's fields. A file that is an ELF already is taken as it is.
func vmlinux(b []byte) ([]byte, error) {
	if !bytes.HasPrefix(b, []byte(elf.ELFMAG)) {
		const (
			setupSects, signature, version = 0x1f1, 0x202, 0x206
			payloadOffset, payloadLength   = 0x248, 0x24c
			headerEnd                      = 0x250
		)
		if len(b) < headerEnd || string(b[signature:signature+4]) != "HdrS" {
			return nil, errors.New("unpack the kernel: it is not a bzImage")
		}
		if v := binary.LittleEndian.Uint16(b[version:]); v < 0x208 {
			return nil, fmt.Errorf("unpack the kernel: boot protocol %#x says nothing of the payload", v)
		}
		sects := int64(b[setupSects])
		if sects == 0 {
			sects = 4 // so says the document, for history's sake
		}
		start := (sects+1)*512 + int64(binary.LittleEndian.Uint32(b[payloadOffset:]))
		end := start + int64(binary.LittleEndian.Uint32(b[payloadLength:]))
		if end > int64(len(b)) || end-start < 8 {
			return nil, errors.New("unpack the kernel: its payload lies outside the file")
		}
		payload := b[start:end]
		// The build appends the unpacked size to the payload, except for gzip, which ends with it anyway.
		want := int64(binary.LittleEndian.Uint32(payload[len(payload)-4:]))
		if !bytes.HasPrefix(payload, gzipMagic) {
			payload = payload[:len(payload)-4]
		}
		out, err := unpack(payload)
		if err != nil {
			return nil, fmt.Errorf("unpack the kernel: %w", err)
		}
		// The payload may have relocations behind the ELF, so only a short result is wrong.
		if int64(len(out)) != want {
			return nil, fmt.Errorf("unpack the kernel: %d bytes, the header promises %d", len(out), want)
		}
		b = out
	}
	return b, checkPVH(b)
}

// checkPVH sees to it that QEMU can enter the kernel: an ELF for x86-64 with the note XEN_ELFNOTE_PHYS32_ENTRY.
func checkPVH(b []byte) error {
	f, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return fmt.Errorf("unpack the kernel: %w", err)
	}
	if f.Machine != elf.EM_X86_64 {
		return fmt.Errorf("unpack the kernel: it is for %v", f.Machine)
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_NOTE || p.Filesz > 1<<20 {
			continue
		}
		notes, err := io.ReadAll(p.Open())
		if err != nil {
			return fmt.Errorf("unpack the kernel: %w", err)
		}
		for len(notes) >= 12 {
			name, desc := int64(f.ByteOrder.Uint32(notes)), int64(f.ByteOrder.Uint32(notes[4:]))
			typ := f.ByteOrder.Uint32(notes[8:])
			next := 12 + (name+3)&^3 + (desc+3)&^3
			if next > int64(len(notes)) {
				break
			}
			if typ == 18 && string(notes[12:12+name]) == "Xen\x00" {
				return nil
			}
			notes = notes[next:]
		}
	}
	return errors.New("unpack the kernel: it has no PVH entry (CONFIG_PVH)")
}

// arm64Image unpacks an arm64 kernel as far as needed: Documentation/arch/arm64/booting.rst. Ubuntu packs it
// with gzip; newer kernels may be an EFI program that carries a packed Image ("zboot").
func arm64Image(b []byte) ([]byte, error) {
	var err error
	if len(b) > 0x40 && string(b[:2]) == "MZ" && string(b[4:8]) == "zimg" {
		start, size := int64(binary.LittleEndian.Uint32(b[8:])), int64(binary.LittleEndian.Uint32(b[12:]))
		if start+size > int64(len(b)) {
			return nil, errors.New("unpack the kernel: its payload lies outside the file")
		}
		b = b[start : start+size]
	}
	if !isImage(b) {
		if b, err = unpack(b); err != nil {
			return nil, fmt.Errorf("unpack the kernel: %w", err)
		}
	}
	if !isImage(b) {
		return nil, errors.New("unpack the kernel: it is no arm64 Image")
	}
	return b, nil
}

func isImage(b []byte) bool { return len(b) >= 64 && string(b[56:60]) == "ARM\x64" }

var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
	xzMagic   = []byte{0xfd, '7', 'z', 'X', 'Z', 0}
	lz4Magic  = []byte{0x02, 0x21, 0x4c, 0x18} // the legacy frame, which the kernel's build makes
)

// unpack decompresses what a kernel or a module may be packed with, by its first bytes.
func unpack(b []byte) ([]byte, error) {
	var r io.Reader
	var err error
	switch in := bytes.NewReader(b); {
	case bytes.HasPrefix(b, gzipMagic):
		var z *gzip.Reader
		if z, err = gzip.NewReader(in); err == nil {
			z.Multistream(false)
			r = z
		}
	case bytes.HasPrefix(b, zstdMagic):
		// A kernel's zstd window is up to 128 MiB.
		var z *zstd.Decoder
		if z, err = zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20)); err == nil {
			defer z.Close()
			r = z
		}
	case bytes.HasPrefix(b, xzMagic):
		if r, err = xz.NewReader(in); err == nil {
			var out []byte
			if out, err = readAll(r); err == nil {
				return out, nil
			}
		}
		// Kernels are packed with the x86 filter, which the library cannot do.
		return xzTool(b, err)
	case bytes.HasPrefix(b, lz4Magic):
		r = lz4.NewReader(in)
	default:
		return nil, fmt.Errorf("unknown compression (first bytes % x)", b[:min(6, len(b))])
	}
	if err != nil {
		return nil, err
	}
	return readAll(r)
}

func readAll(r io.Reader) ([]byte, error) {
	out, err := io.ReadAll(io.LimitReader(r, maxKernel+1))
	if err == nil && len(out) > maxKernel {
		err = fmt.Errorf("more than %d MiB", maxKernel>>20)
	}
	return out, err
}

func xzTool(b []byte, cause error) ([]byte, error) {
	bin, err := exec.LookPath("xz")
	if err != nil {
		return nil, problem.Wrap(problem.Missing, cause, "xz is not installed, and this file needs it", "sudo apt-get install xz-utils")
	}
	cmd := exec.Command(bin, "-dc")
	cmd.Stdin = bytes.NewReader(b)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	data, err := readAll(out)
	out.Close()
	if werr := cmd.Wait(); err == nil {
		err = werr
	}
	return data, err
}
