package packaging

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"os"
	"os/exec"
	"testing"
)

// TestReproducible makes a library for macOS whose indirect symbol table ends with bytes of the
// linker's memory, and checks the signature.
func TestReproducible(t *testing.T) {
	needPython(t)
	le, be := binary.LittleEndian, binary.BigEndian
	const table, signature, size = 0x180, 0x1a0, 0x240
	library := func(rest uint32, uuid byte) []byte {
		d := make([]byte, size)
		put := func(at int, words ...uint32) {
			for i, w := range words {
				le.PutUint32(d[at+4*i:], w)
			}
		}
		put(0, 0xfeedfacf, 0, 0, 6, 4)
		segment := 32
		put(segment, 0x19, 72+2*80)
		put(segment+64, 2)
		stubs, lazy := segment+72, segment+152
		put(stubs+40, 24)                // two stubs of 12 bytes
		put(stubs+64, 0x80000408, 0, 12) // flags, reserved1, reserved2
		put(lazy+40, 16)                 // two pointers
		put(lazy+64, 0x7)
		dysymtab := segment + 72 + 160
		put(dysymtab, 0xb, 20)
		put(dysymtab+56, table, 7) // overlaps the zeros of a shorter command, which is not read
		id := dysymtab + 80
		put(dysymtab+4, 80)
		put(id, 0x1b, 24)
		d[id+8] = uuid
		sign := id + 24
		put(sign, 0x1d, 16, signature, size-signature)
		put(table, 5, 6, 9, 5, 6, rest, rest+1) // stubs, an address, lazy pointers, memory
		for i, w := range []uint32{0xfade0cc0, size - signature, 1, 0, 20} {
			be.PutUint32(d[signature+4*i:], w)
		}
		for i, w := range []uint32{0xfade0c02, 0, 0, 2, 48, 44, 0, 2, signature, 0x20020008} {
			be.PutUint32(d[signature+20+4*i:], w)
		}
		return d
	}
	filter := func(in []byte) []byte {
		c := exec.Command("python3", "-B", "-c", "import sys, macho; sys.stdout.buffer.write(macho.reproducible(sys.stdin.buffer.read()))")
		c.Stdin, c.Stderr = bytes.NewReader(in), os.Stderr
		out, err := c.Output()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	a, b := filter(library(77, 1)), filter(library(78, 2))
	if !bytes.Equal(a, b) {
		t.Error("two builds differ")
	}
	if got := le.Uint32(a[table+4*4:]); got != 6 {
		t.Errorf("the last lazy pointer has symbol %d, want 6", got)
	}
	if got := le.Uint64(a[table+4*5:]); got != 0 {
		t.Errorf("after the table is %x", got)
	}
	for n, page := range [][]byte{a[:256], a[256:signature]} {
		want := sha256.Sum256(page)
		if got := a[signature+20+48+32*n:][:32]; !bytes.Equal(got, want[:]) {
			t.Errorf("page %d has the hash %x, want %x", n, got, want)
		}
	}
}

// needPython skips a test of a Python script if python3 is not installed.
func needPython(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("NOT TESTED: there is no python3 here: scripts/setup installs it")
	}
}
