package safetensors

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/source"
)

// maxHeader is the longest header that the reference reader accepts.
const maxHeader = 100_000_000

// File is a parsed file.
type File struct {
	Tensors  []Entry     // in the order of their data
	Metadata [][2]string // keys and values of "__metadata__", keys unique
	Warnings []string    // what a user should know but the entries do not show
}

// Entry is one tensor of a file.
type Entry struct {
	Name   string // unescaped, any text
	DType  tensorfs.DType
	Shape  []int64 // row-major
	Data   tensorfs.Data
	Offset int64 // of the data in the file
}

// Match reports whether a file of the given size that starts with head looks like
// safetensors. It does not ask whether the file is complete, so [Parse] can
// report a truncated download as such.
func Match(head []byte, size int64) bool {
	if len(head) < 10 || size < 10 {
		return false
	}
	if n := binary.LittleEndian.Uint64(head); n < 2 || n > maxHeader {
		return false
	}
	rest := strings.TrimLeft(string(head[8:]), " \t\r\n")
	if rest == "" {
		return true // padding up to the end of head
	}
	if rest[0] != '{' {
		return false
	}
	rest = strings.TrimLeft(rest[1:], " \t\r\n")
	return rest == "" || rest[0] == '"' || rest[0] == '}'
}

// Parse reads the header of a file and checks every rule of the format. A
// *bytes.Reader is Data. Parse does not own data, which the tensors are read from.
func Parse(data tensorfs.Data) (*File, error) {
	f := source.AsFile(data, "model.safetensors")
	p := parser{file: f}
	if f.Size() < 8 {
		return nil, p.fail(0, "", "a file of %d bytes is too short for safetensors, which starts with 8 bytes of header length", f.Size())
	}
	var length [8]byte
	if err := tensorfs.ReadFull(f, length[:], 0); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(length[:])
	switch {
	case n > maxHeader:
		return nil, p.fail(0, "", "a header of %d bytes exceeds the limit of %d", n, maxHeader)
	case int64(n) > f.Size()-8:
		return nil, p.fail(0, "", "a header of %d bytes runs past the end of the file of %d bytes", n, f.Size())
	}
	b, memory, err := tensorfs.View(f, 8, int64(n), new([]byte))
	if err != nil {
		return nil, err
	}
	if err := tensorfs.Guard(func() error { return p.header(b) }, memory); err != nil {
		return nil, err
	}
	return p.place(8 + int64(n))
}

// record is a tensor's entry as written in the header.
type record struct {
	name       string
	dtype      tensorfs.DType
	shape      []int64
	size       uint64 // bytes by shape and type
	begin, end uint64 // data_offsets
	at         int64  // where the entry is in the file, for messages
}

// place lays out the records in the data section, which starts at byte data of
// the file. This single walk rules out holes, overlaps, reversed spans, tensors
// outside the file and bytes without a tensor.
func (p *parser) place(data int64) (*File, error) {
	slices.SortFunc(p.records, func(a, b record) int {
		return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(a.end, b.end), strings.Compare(a.name, b.name))
	})
	room := uint64(p.file.Size() - data)
	out := &File{Tensors: make([]Entry, len(p.records)), Metadata: p.metadata, Warnings: p.warnings}
	var last uint64
	for i := range p.records {
		r := &p.records[i]
		switch {
		case r.end < r.begin:
			return nil, p.fail(r.at, r.name, "data_offsets [%d, %d] are reversed", r.begin, r.end)
		case r.end-r.begin != r.size:
			return nil, p.fail(r.at, r.name, "data_offsets span %d bytes, but its shape and type take %d", r.end-r.begin, r.size)
		case r.begin > last:
			return nil, p.fail(r.at, r.name, "data_offsets start at %d and leave the %d bytes before to no tensor", r.begin, r.begin-last)
		case r.begin < last:
			return nil, p.fail(r.at, r.name, "data_offsets [%d, %d] overlap the data of tensor %s", r.begin, r.end, tensorfs.Quote(p.records[i-1].name))
		case r.end > room:
			return nil, p.fail(r.at, r.name, "its data ends at byte %d of the data section, which has %d bytes", r.end, room)
		}
		last = r.end
		at := data + int64(r.begin)
		out.Tensors[i] = Entry{r.name, r.dtype, r.shape, p.file.Section(at, int64(r.size)), at}
	}
	if last != room {
		return nil, p.fail(data+int64(last), "", "%d bytes after the last tensor belong to no tensor", room-last)
	}
	return out, nil
}

// size returns the number of bytes that dims of type t take. As in the reference
// reader, the product is folded left to right in 64 bits: a leading zero hides a
// later overflow, a trailing one does not.
func (p *parser) size(at int64, name string, t tensorfs.DType, dims []uint64) (uint64, error) {
	n := uint64(1)
	for _, d := range dims {
		hi, lo := bits.Mul64(n, d)
		if hi != 0 {
			return 0, p.fail(at, name, "the product of its shape %s exceeds 64 bits", shapeText(dims))
		}
		n = lo
	}
	hi, total := bits.Mul64(n, uint64(t.Bits()))
	switch {
	case hi != 0:
		return 0, p.fail(at, name, "%d elements of %s exceed 64 bits", n, t)
	case total%8 != 0:
		return 0, p.fail(at, name, "%d elements of %s are not whole bytes", n, t)
	}
	return total / 8, nil
}

// shapeText prints dims for a message, cutting off a hostile rank.
func shapeText(dims []uint64) string {
	const limit = 8
	if len(dims) > limit {
		return fmt.Sprintf("%v... (rank %d)", dims[:limit], len(dims))
	}
	return fmt.Sprint(dims)
}

// fail returns a FormatError about the file.
func (p *parser) fail(at int64, tensor, problem string, args ...any) error {
	return &tensorfs.FormatError{File: p.file.Path(), Tensor: tensor, Offset: at, Problem: fmt.Sprintf(problem, args...)}
}
