package gguf

import (
	"fmt"
	"slices"

	"github.com/tensorfs/tensorfs"
)

// byID holds the types of ggml and its forks by their number in files, without the numbers
// that are in the table of meanings.
var byID = func() map[uint32]tensorfs.DType {
	m := make(map[uint32]tensorfs.DType)
	for t := range tensorfs.DTypes() {
		if id := t.GGML(); id >= 0 && !slices.ContainsFunc(meanings, func(m meaning) bool { return m.id == uint32(id) }) {
			m[uint32(id)] = t
		}
	}
	return m
}()

// gone explains type numbers that no file should have and whose layout is not known here.
var gone = map[uint32]string{
	4:   "was Q4_2, which ggml removed before GGUF",
	5:   "was Q4_3, which ggml removed before GGUF",
	97:  activations,
	98:  activations,
	99:  activations,
	136: activations,
	147: activations,
	148: activations,
	149: activations,
	150: activations,
	151: activations,
}

const activations = "is a type of ik_llama.cpp for activations"

// Numbers of ik_llama.cpp's types that mix the bytes of 4, 8 or 16 rows: up to
// 352 each is its base type's number and 200, 353 is MXFP4's.
const (
	firstMixed = 202
	lastMixed  = 399
	mixedMXFP4 = 353
)

// resolve gives a tensor its type, its size, and the reason why its numbers
// cannot be decoded, if there is one.
func (f *File) resolve(p *extent, in info, all numbering) error {
	t := &f.Tensors[p.tensor]
	if in.typ >= firstShared {
		return f.resolveShared(p, in, all)
	}
	d, ok := byID[in.typ]
	if !ok {
		t.Opaque = nameless(in.typ)
		return f.takeAll(p, in)
	}
	t.DType = d
	if p.size, ok = d.Size(t.Shape); !ok {
		return f.badSize(p, in)
	}
	if !t.WholeRowGroups() {
		t.Opaque = fmt.Sprintf("%s mixes %d rows, and the rows of this tensor are not a multiple of %d; see raw/", d, d.RowGroup(), d.RowGroup())
	}
	return nil
}

// badSize explains why a shape has no size in the tensor's type.
func (f *File) badSize(p *extent, in info) error {
	t := &f.Tensors[p.tensor]
	if elems, _ := t.DType.Block(); t.Cols()%elems != 0 {
		return f.errorAt(p.tensor, in.at, "its rows of %d elements are not whole blocks of %d, which %s needs", t.Cols(), elems, t.DType)
	}
	return f.errorAt(p.tensor, in.at, "a shape of %v in %s takes more bytes than any file has", t.Shape, t.DType)
}

// takeAll gives a tensor of unknown layout all bytes up to the next one.
func (f *File) takeAll(p *extent, in info) error {
	if p.elems == 0 {
		return nil
	}
	if p.size = p.next - p.offset; p.size == 0 {
		return f.errorAt(p.tensor, in.at, "no bytes are left for its %d elements of type %d", p.elems, in.typ)
	}
	return nil
}

// nameless explains a number that has no type in the table.
func nameless(id uint32) string {
	what := "is not known here"
	if s, ok := gone[id]; ok {
		what = s
	} else if id >= firstMixed && id <= lastMixed {
		what = "is one of ik_llama.cpp's types that mix the bytes of several rows"
		base, ok := byID[id-200]
		if id == mixedMXFP4 {
			base = tensorfs.MXFP4
		}
		if ok && id <= mixedMXFP4 {
			what = fmt.Sprintf("is ik_llama.cpp's %s with the bytes of several rows mixed", base)
		}
	}
	return fmt.Sprintf("its ggml type %d %s; see raw/", id, what)
}
