package build

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/ulikunitz/xz"
)

// testELF makes a kernel as far as checkPVH looks: a header, one PT_NOTE with the notes given, and some code.
func testELF(machine elf.Machine, notes ...[]byte) []byte {
	note := bytes.Join(notes, nil)
	var b bytes.Buffer
	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	binary.Write(&b, binary.LittleEndian, h)
	binary.Write(&b, binary.LittleEndian, elf.Prog64{Type: uint32(elf.PT_NOTE), Off: 120, Filesz: uint64(len(note))})
	b.Write(note)
	code := make([]byte, 64<<10)
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range code {
		code[i] = byte(rnd.UintN(16)) // compressible, but not to nothing
	}
	b.Write(code)
	return b.Bytes()
}

func elfNote(name string, typ uint32, desc string) []byte {
	var b bytes.Buffer
	for _, v := range []uint32{uint32(len(name) + 1), uint32(len(desc)), typ} {
		binary.Write(&b, binary.LittleEndian, v)
	}
	for _, s := range []string{name + "\x00", desc} {
		b.WriteString(s)
		b.Write(make([]byte, -len(s)&3))
	}
	return b.Bytes()
}

var pvhNote = elfNote("Xen", 18, "\x00\x00\x00\x01\x00\x00\x00\x00")

// testBzImage wraps a payload like the kernel's build does.
func testBzImage(payload []byte, unpacked int, isGzip bool) []byte {
	if !isGzip {
		payload = binary.LittleEndian.AppendUint32(bytes.Clone(payload), uint32(unpacked))
	}
	const sects, offset = 3, 0x40
	b := make([]byte, (sects+1)*512+offset)
	b[0x1f1] = sects
	copy(b[0x202:], "HdrS")
	binary.LittleEndian.PutUint16(b[0x206:], 0x20f)
	binary.LittleEndian.PutUint32(b[0x248:], offset)
	binary.LittleEndian.PutUint32(b[0x24c:], uint32(len(payload)))
	return append(append(b, payload...), "what follows the payload"...)
}

func packed(t *testing.T, how string, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser
	var err error
	switch how {
	case "gzip":
		w = gzip.NewWriter(&b)
	case "zstd":
		w, err = zstd.NewWriter(&b)
	case "xz":
		w, err = xz.NewWriter(&b)
	case "lz4":
		z := lz4.NewWriter(&b)
		err = z.Apply(lz4.LegacyOption(true))
		w = z
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestVmlinux(t *testing.T) {
	kernel := testELF(elf.EM_X86_64, elfNote("Linux", 1, "abc"), pvhNote)
	for _, how := range []string{"gzip", "zstd", "xz", "lz4"} {
		got, err := bootable(testBzImage(packed(t, how, kernel), len(kernel), how == "gzip"), "amd64")
		if err != nil || !bytes.Equal(got, kernel) {
			t.Errorf("%s: %d bytes of %d, %v", how, len(got), len(kernel), err)
		}
	}
	if got, err := bootable(kernel, "amd64"); err != nil || !bytes.Equal(got, kernel) {
		t.Errorf("an unpacked kernel: %v", err)
	}
}

func TestVmlinuxRefusals(t *testing.T) {
	kernel := testELF(elf.EM_X86_64, pvhNote)
	good := testBzImage(packed(t, "zstd", kernel), len(kernel), false)
	change := func(f func([]byte)) []byte { b := bytes.Clone(good); f(b); return b }
	for name, b := range map[string][]byte{
		"not a bzImage":             []byte(strings.Repeat("x", 1000)),
		"not a bzImage, empty":      nil,
		"boot protocol":             change(func(b []byte) { b[0x206], b[0x207] = 1, 2 }),
		"outside the file":          good[:len(good)/2],
		"outside the file, offset":  change(func(b []byte) { binary.LittleEndian.PutUint32(b[0x248:], 0xffffffff) }),
		"outside the file, length":  change(func(b []byte) { binary.LittleEndian.PutUint32(b[0x24c:], 0xffffffff) }),
		"outside the file, nothing": change(func(b []byte) { binary.LittleEndian.PutUint32(b[0x24c:], 0) }),
		"unknown compression":       testBzImage([]byte("BZh91AY&SY and so on"), 1, false),
		"the header promises":       testBzImage(packed(t, "zstd", kernel), len(kernel)+1, false),
		"no PVH entry":              testBzImage(packed(t, "zstd", testELF(elf.EM_X86_64, elfNote("Xen", 6, "x"))), len(testELF(elf.EM_X86_64, elfNote("Xen", 6, "x"))), false),
		"EM_AARCH64":                testELF(elf.EM_AARCH64, pvhNote),
		"unpack":                    change(func(b []byte) { b[len(b)/2] ^= 0xff }),
	} {
		want, _, _ := strings.Cut(name, ",")
		if _, err := bootable(b, "amd64"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestArm64Image(t *testing.T) {
	image := make([]byte, 4096)
	copy(image[56:], "ARM\x64")
	z := packed(t, "gzip", image)
	zboot := make([]byte, 0x50)
	copy(zboot, "MZ\x00\x00zimg")
	binary.LittleEndian.PutUint32(zboot[8:], uint32(len(zboot)))
	binary.LittleEndian.PutUint32(zboot[12:], uint32(len(z)))
	zboot = append(zboot, z...)
	for name, b := range map[string][]byte{"plain": image, "gzip": z, "zboot": zboot} {
		if got, err := bootable(b, "arm64"); err != nil || !bytes.Equal(got, image) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
	for name, b := range map[string][]byte{"nothing": nil, "other": packed(t, "gzip", make([]byte, 4096)), "cut": zboot[:len(zboot)-9]} {
		if _, err := bootable(b, "arm64"); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}
