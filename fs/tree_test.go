package fs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/source"
)

// The trees of the tests are functions of a model file whose bytes can be computed, so that servers
// and clients know what to expect without the mount.

// modTime is the time of every file in the tests.
var modTime = time.Date(2024, 5, 6, 7, 8, 9, 123456789, time.UTC)

// fill writes the model's bytes [off, off+len(p)) to p.
func fill(p []byte, off int64) {
	var word [8]byte
	for len(p) > 0 {
		x := uint64(off>>3) * 0x9e3779b97f4a7c15
		x ^= x >> 29
		x *= 0xbf58476d1ce4e5b9
		x ^= x >> 32
		n := 8
		if off&7 == 0 && len(p) >= 8 {
			binary.LittleEndian.PutUint64(p, x)
		} else {
			binary.LittleEndian.PutUint64(word[:], x)
			n = copy(p, word[off&7:])
		}
		p, off = p[n:], off+int64(n)
	}
}

// writeModel makes a model file of the given size.
func writeModel(path string, size int64) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	buf := make([]byte, 1<<20)
	for off := int64(0); off < size; off += int64(len(buf)) {
		p := buf[:min(int64(len(buf)), size-off)]
		fill(p, off)
		if _, err := f.Write(p); err != nil {
			f.Close()
			return err
		}
	}
	return f.Close()
}

// doubled is Data that has to be converted: every byte of src becomes two.
type doubled struct{ src *source.MappedSection }

func (d doubled) Size() int64 { return 2 * d.src.Size() }

func (d doubled) ReadAt(p []byte, off int64) (int, error) {
	n, eof := tensorfs.ClipRange(d.Size(), p, off)
	if n == 0 {
		return 0, eof
	}
	first, end := off/2, (off+int64(n)+1)/2
	b, memory, err := tensorfs.View(d.src, first, end-first, new([]byte))
	if err != nil {
		return 0, err
	}
	if err := tensorfs.Guard(func() error { double(p[:n], b, off&1); return nil }, memory); err != nil {
		return 0, err
	}
	return n, eof
}

// double writes the doubled bytes of src, without the first skip, to dst.
func double(dst, src []byte, skip int64) {
	if skip > 0 && len(dst) > 0 {
		dst[0] = src[0] ^ 0xa5
		dst, src = dst[1:], src[1:]
	}
	for ; len(dst) >= 2; dst, src = dst[2:], src[1:] {
		x := uint16(src[0])
		binary.LittleEndian.PutUint16(dst, x|(x^0xa5)<<8)
	}
	if len(dst) > 0 {
		dst[0] = src[0]
	}
}

// part is a run of the model that the trees show as a file.
type part struct {
	name   string
	off, n int64
}

// parts are the files of raw/ and f16/ in a model of the given size. Their
// offsets and sizes are odd on purpose.
func parts(size int64) []part {
	ps := []part{
		{"a.empty", 100, 0},
		{"b.byte", 4097, 1},
		{"c.page", 8192, 4096},
		{"d.odd", 12345, 77777},
		{"e.aligned", 1 << 20, 1 << 20},
	}
	rest := int64(2<<20 + 13)
	if size > rest {
		ps = append(ps, part{"f.large", rest, size - rest})
	}
	return ps
}

// want returns the bytes [off, off+len(p)) of a tree's file, computed without
// the mount. The path is below the mount point.
func want(p []byte, path string, size, off int64) error {
	for _, x := range parts(size) {
		switch path {
		case "raw/" + x.name, "joined/" + x.name:
			fill(p, x.off+off)
			return nil
		case "f16/" + x.name:
			src := make([]byte, (off&1+int64(len(p))+1)/2)
			fill(src, x.off+off/2)
			double(p, src, off&1)
			return nil
		}
	}
	return fmt.Errorf("%s: no such file in the test's tree", path)
}

const readme = "This is a tree for tests.\n"

// section is a part of a mapped file, as what it is.
func section(m *source.Mapped, off, n int64) *source.MappedSection {
	return m.Section(off, n).(*source.MappedSection)
}

// testTree is the tree over a model file and an optional second one ("other").
func testTree(model *source.Mapped, other *source.Mapped) tensorfs.Dir {
	var raw, f16, two tensorfs.Entries
	for _, p := range parts(model.Size()) {
		if p.off+p.n > model.Size() {
			continue
		}
		sec := section(model, p.off, p.n)
		attrs := func() []tensorfs.Attr {
			return []tensorfs.Attr{
				{Name: "user.tensorfs.dtype", Value: []byte("U8")},
				{Name: "user.tensorfs.shape", Value: fmt.Appendf(nil, "[%d]", p.n)},
			}
		}
		half := p.n / 3
		raw = append(raw, tensorfs.Entry{Name: p.name, Data: sec, Attrs: attrs})
		f16 = append(f16, tensorfs.Entry{Name: p.name, Data: doubled{sec}, Attrs: attrs})
		two = append(two, tensorfs.Entry{Name: p.name, Data: tensorfs.Concat(model.Section(p.off, half), model.Section(p.off+half, p.n-half))})
	}
	root := tensorfs.Entries{
		{Name: "README", Data: tensorfs.NewText(1, func(dst []byte, _ int) []byte { return append(dst, readme...) })},
		{Name: "deep", Dir: tensorfs.Entries{{Name: "er", Dir: tensorfs.Entries{{Name: "x", Data: bytes.NewReader([]byte("x"))}}}}},
		{Name: "empty", Dir: tensorfs.Entries{}},
		{Name: "f16", Dir: f16},
		{Name: "joined", Dir: two},
	}
	if other != nil {
		root = append(root, tensorfs.Entry{Name: "other", Data: other.Section(0, other.Size())})
	}
	return append(root,
		tensorfs.Entry{Name: "raw", Dir: raw},
		tensorfs.Entry{Name: "source", Dir: tensorfs.Entries{{Name: "model", Link: model.Path()}}},
	)
}

// wide is a directory of many files that are made when asked for.
type wide int

func (w wide) Len() int { return int(w) }

func (w wide) Entry(i int) tensorfs.Entry {
	return tensorfs.Entry{Name: fmt.Sprintf("tensor.%06d.weight", i), Data: number(i)}
}

// number is Data: the decimal digits of i.
type number int

func (n number) text() []byte { return fmt.Appendf(nil, "%d\n", int(n)) }
func (n number) Size() int64  { return int64(len(n.text())) }
func (n number) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(n.text()).ReadAt(p, off)
}
