package qemu

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// tinyKernel writes a kernel of a few bytes for x86: 32-bit code that QEMU enters by the PVH protocol
// (Xen's docs/misc/pvh.pandoc). It prints text on the first serial port, then does end. It starts in
// a tenth of the time that Linux takes, so most tests of the backend need no image.
func tinyKernel(t testing.TB, text string, end []byte) string {
	t.Helper()
	const base = 0x100000
	code := []byte{0xbe, 0, 0, 0, 0} // mov esi, text
	code = append(code,
		0x66, 0xba, 0xf8, 0x03, // mov dx, 0x3f8
		0xac,       // next: lodsb
		0x84, 0xc0, // test al, al
		0x74, 0x03, // jz done
		0xee,       // out dx, al
		0xeb, 0xf8, // jmp next
	) // done:
	code = append(code, end...)

	var elf bytes.Buffer
	le := binary.LittleEndian
	const ehdr, phdr = 52, 32
	note := []byte{4, 0, 0, 0, 4, 0, 0, 0, 0x12, 0, 0, 0, 'X', 'e', 'n', 0, 0, 0, 0, 0} // XEN_ELFNOTE_PHYS32_ENTRY
	noteAt := uint32(ehdr + 2*phdr)
	codeAt := noteAt + uint32(len(note))
	le.PutUint32(note[16:], base+codeAt)
	le.PutUint32(code[1:], base+codeAt+uint32(len(code)))
	body := append(append(note, code...), append([]byte(text), 0)...)
	size := noteAt + uint32(len(body))

	elf.Write([]byte{0x7f, 'E', 'L', 'F', 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0}) // 32 bits, little endian
	for _, v := range []any{uint16(2), uint16(3), uint32(1), uint32(base + codeAt), uint32(ehdr), uint32(0), uint32(0),
		uint16(ehdr), uint16(phdr), uint16(2), uint16(0), uint16(0), uint16(0), // executable for the 386
		uint32(1), uint32(0), uint32(base), uint32(base), size, size, uint32(7), uint32(0x1000), // PT_LOAD: all of it
		uint32(4), noteAt, base + noteAt, base + noteAt, uint32(len(note)), uint32(len(note)), uint32(4), uint32(4), // PT_NOTE
	} {
		_ = binary.Write(&elf, le, v)
	}
	elf.Write(body)
	path := filepath.Join(t.TempDir(), "kernel")
	if err := os.WriteFile(path, elf.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// What a tiny kernel does in the end.
var (
	thenHalt     = []byte{0xfa, 0xf4, 0xeb, 0xfd}                                                          // cli; hlt; jmp hlt
	thenPowerOff = append([]byte{0x66, 0xba, 0x04, 0x06, 0x66, 0xb8, 0x00, 0x20, 0x66, 0xef}, thenHalt...) // PM1a control: SLP_EN
	thenAgain    = []byte{0xeb, 0xed}                                                                      // jmp to the first instruction
	thenReset    = append(append([]byte{0xff, 0x05, 0, 0, 0x20, 0, 0x83, 0x3d, 0, 0, 0x20, 0, 1, 0x75, 0x07}, 0x66, 0xba, 0xf9, 0x0c, 0xb0, 0x06, 0xee), thenHalt...)
)
