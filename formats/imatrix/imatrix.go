// Package imatrix reads importance matrices: for tensors of a GGUF file, how much each of their columns counts when they
// are quantised. llama-imatrix measures them. There are two forms, a GGUF file and an older one:
//
//	GGUF   tensors NAME.in_sum2, F32 [experts, columns], and NAME.counts, F32 [experts]; a value is a sum by its count, cut to
//	       a whole number, and 1 where that is not positive; keys imatrix.datasets, .chunk_count and .chunk_size
//	older  i32 entries; of each i32 length and name, i32 calls, i32 values, F32 values, which are to be divided by the calls;
//	       then, where they are there, i32 chunks, i32 length and name of the dataset
//
// Both as llama.cpp's tools/imatrix writes and tools/quantize reads them, release v0.5.0. Values stay in the file, and
// are read again when they are asked for.
package imatrix

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
)

// Matrix is an importance matrix. It reads its data on demand.
type Matrix struct {
	File    string // name for messages; not set by Open
	Dataset string // that it was measured with, "" if the file does not say it
	Chunks  uint32 // how much of it
	entries map[string]entry
}

// entry is what there is of a tensor.
type entry struct {
	sums   tensorfs.Data
	counts []float32
	each   int64 // how many sums a count is for
}

// limits of what is read at once: no model comes near them.
const (
	maxEntries = 1 << 20
	maxExperts = 1 << 16
	maxName    = 1 << 12
)

// Len returns for how many tensors there are values.
func (m *Matrix) Len() int { return len(m.entries) }

// Values returns how many values a tensor has, 0 without it: all columns of its first
// expert, then of the next.
func (m *Matrix) Values(tensor string) int64 {
	e := m.entries[tensor]
	return e.each * int64(len(e.counts))
}

// Read returns the n values from first on of a tensor.
func (m *Matrix) Read(tensor string, first, n int64) ([]float32, error) {
	e := m.entries[tensor]
	if first < 0 || n < 0 || n > m.Values(tensor)-first {
		return nil, fmt.Errorf("the importance matrix has %d values of %s, and not %d from %d on", m.Values(tensor), tensorfs.Quote(tensor), n, first)
	}
	b := make([]byte, 4*n)
	if err := tensorfs.ReadFull(e.sums, b, 4*first); err != nil {
		return nil, err
	}
	values := make([]float32, n)
	for i := range values {
		values[i] = 1
		if count := e.counts[(first+int64(i))/e.each]; count > 0 {
			values[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:])) / count
		}
		if !(math.Abs(float64(values[i])) <= math.MaxFloat32) {
			return nil, problem("it has %v for column %d of %s", values[i], first+int64(i), tensorfs.Quote(tensor))
		}
	}
	return values, nil
}

// check reads all values. It refuses infinite values and NaN. llama-quantize takes negative
// ones.
func (m *Matrix) check() error {
	const most = 1 << 16 // values at once
	for _, tensor := range slices.Sorted(maps.Keys(m.entries)) {
		all := m.Values(tensor)
		for first := int64(0); first < all; first += most {
			if _, err := m.Read(tensor, first, min(most, all-first)); err != nil {
				return err
			}
		}
	}
	return nil
}

// Open reads a matrix of either form, and each of its values once.
func Open(d tensorfs.Data) (*Matrix, error) {
	head := make([]byte, min(4, d.Size()))
	if err := tensorfs.ReadFull(d, head, 0); err != nil {
		return nil, err
	}
	m := &Matrix{entries: map[string]entry{}}
	read := m.readOlder
	if string(head) == "GGUF" {
		read = m.readGGUF
	}
	if err := read(d); err != nil {
		return nil, err
	}
	if len(m.entries) == 0 {
		return nil, problem("it is not an importance matrix, or an empty one: it has no values for any tensor")
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	return m, nil
}

func problem(format string, args ...any) error {
	return &tensorfs.FormatError{Offset: -1, Problem: fmt.Sprintf(format, args...), Advice: "name a file that llama-imatrix wrote"}
}

func (m *Matrix) readGGUF(d tensorfs.Data) error {
	f, err := gguf.Parse(d)
	if err != nil {
		return err
	}
	if v := f.Value("general.type"); v != "imatrix" {
		return problem("it is a GGUF file, and general.type does not say that it is an importance matrix")
	}
	chunks, ok := f.Value("imatrix.chunk_count").(uint32)
	if _, sized := f.Value("imatrix.chunk_size").(uint32); !ok || !sized {
		return problem("imatrix.chunk_count or imatrix.chunk_size is missing, so how often its values were added up is not known")
	}
	m.Chunks = chunks
	datasets, ok := f.Value("imatrix.datasets").(tensorfs.Array)
	if !ok {
		return problem("imatrix.datasets is missing")
	}
	for v := range datasets.Values() {
		m.Dataset, _ = v.(string)
		break
	}
	tensors := map[string]*tensorfs.Tensor{}
	for i := range f.Tensors {
		tensors[f.Tensors[i].Source] = &f.Tensors[i]
	}
	for source, sums := range tensors {
		name, ok := strings.CutSuffix(source, ".in_sum2")
		if !ok {
			continue
		}
		counts := tensors[name+".counts"]
		if counts == nil || counts.DType != tensorfs.F32 || sums.DType != tensorfs.F32 || counts.BigEndian {
			return problem("%s has no counts, or one of them is not F32", tensorfs.Quote(name))
		}
		experts, _ := tensorfs.Elements(counts.Shape)
		all, _ := tensorfs.Elements(sums.Shape)
		if experts < 1 || experts > maxExperts || all < 1 || all%experts != 0 {
			return problem("%s has %d counts for %d values", tensorfs.Quote(name), experts, all)
		}
		b := make([]byte, 4*experts)
		if err := tensorfs.ReadFull(counts.Data, b, 0); err != nil {
			return err
		}
		e := entry{sums: sums.Data, each: all / experts}
		for ; len(b) > 0; b = b[4:] {
			count := math.Float32frombits(binary.LittleEndian.Uint32(b))
			if !(math.Abs(float64(count)) < 1<<31) {
				return problem("%s has a count of %v", tensorfs.Quote(name), count)
			}
			e.counts = append(e.counts, float32(math.Trunc(float64(count))))
		}
		m.entries[name] = e
	}
	return nil
}

// older reads the fields of the older form one after the other.
type older struct {
	d   tensorfs.Data
	at  int64
	err error
}

func (o *older) bytes(n int64) []byte {
	if o.err == nil && (n < 0 || n > o.d.Size()-o.at) {
		o.err = problem("it ends at byte %d, in the middle of an entry", o.d.Size())
	}
	if o.err != nil {
		return nil
	}
	b := make([]byte, n)
	o.err = tensorfs.ReadFull(o.d, b, o.at)
	o.at += n
	return b
}

func (o *older) number() int64 {
	if b := o.bytes(4); o.err == nil {
		return int64(int32(binary.LittleEndian.Uint32(b)))
	}
	return 0
}

func (o *older) name() string {
	n := o.number()
	if o.err == nil && (n < 1 || n > maxName) {
		o.err = problem("a name of %d bytes at byte %d", n, o.at)
	}
	return string(o.bytes(n))
}

func (m *Matrix) readOlder(d tensorfs.Data) error {
	o := &older{d: d}
	n := o.number()
	if o.err == nil && (n < 1 || n > maxEntries || n > d.Size()/13) {
		return problem("it is not an importance matrix: %d entries do not fit into its %d bytes", n, d.Size())
	}
	for ; n > 0 && o.err == nil; n-- {
		name := o.name()
		calls, values := o.number(), o.number()
		if o.err == nil && (values < 1 || values > (d.Size()-o.at)/4) {
			o.err = problem("%s has %d values, which do not fit into the file", tensorfs.Quote(name), values)
		}
		if _, twice := m.entries[name]; o.err == nil && twice {
			o.err = problem("%s is there twice", tensorfs.Quote(name))
		}
		if o.err != nil {
			break
		}
		m.entries[name] = entry{sums: tensorfs.Section(d, o.at, 4*values), each: values, counts: []float32{max(float32(calls), 1)}}
		o.at += 4 * values
	}
	if o.err == nil && o.at < d.Size() {
		m.Chunks = uint32(max(o.number(), 0))
		m.Dataset = o.name()
	}
	return o.err
}
