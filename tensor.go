package tensorfs

// Tensor is one named array of numbers. It is a plain value; nothing in it
// reads the model.
type Tensor struct {
	Name      string  // file name in every view: canonical, or escaped from Source
	Source    string  // name in the model's file, any bytes
	DType     DType   // type of the stored elements
	Shape     []int64 // row-major, outermost first; empty is a single element
	Data      Data
	Quant     *Quant // how companions turn the stored codes into numbers; nil for self-contained types
	Owner     string // name of the tensor whose Quant holds this one as a companion; "" for others
	BigEndian bool   // multi-byte fields of Data are big-endian
	Opaque    string // why the numbers cannot be decoded from the bytes; "" where they can
	Parts     []Part // parts of Data that a kernel addresses separately; nil where Data is a single part

	// MayOverflow marks halves made of a type with larger numbers: what is 65520 or
	// above there, or -65520 or below, is infinite in Data. Whether there are such
	// numbers is not known.
	MayOverflow bool

	// Float is the type that numbers have in a file, where they are F32 only because they
	// are made of what was quantised; Unknown for all others.
	Float DType

	// Apart says why a tensor whose name means several joined ones, such as gate_up,
	// does not hold all rows of one part before the rows of the next; "" where it does.
	Apart string

	// Change says what adds to the numbers when they are read; nil where they are those of
	// the model's files.
	Change *Change
}

// Cols returns the length of a row: the last dimension, 1 for a scalar.
func (t *Tensor) Cols() int64 {
	if len(t.Shape) == 0 {
		return 1
	}
	return t.Shape[len(t.Shape)-1]
}

// WholeRowGroups reports whether the rows of each of the tensor's matrices divide
// evenly into the groups that its type interleaves: see [DType.RowGroup].
func (t *Tensor) WholeRowGroups() bool {
	n := t.DType.RowGroup()
	return n == 1 || len(t.Shape) >= 2 && t.Shape[len(t.Shape)-2]%n == 0
}

// Weight returns the name under which the tensor's numbers are shown: its own
// name, or that of the module whose codes it holds.
func (t *Tensor) Weight() string {
	if t.Quant != nil && t.Quant.Weight != "" {
		return t.Quant.Weight
	}
	return t.Name
}

// Numbers returns the shape of the numbers that the tensor represents, which
// differs from the shape of codes packed into words.
func (t *Tensor) Numbers() []int64 {
	if t.Quant != nil {
		return t.Quant.Shape
	}
	return t.Shape
}

// Quant says how a module's stored codes become numbers when the scales are in
// tensors of their own.
//
//	affine         code*scale + bias           codes U32, scales and biases F16, BF16 or F32
//	mxfp4, mxfp8   element * 2^(scale-127)     codes U32 (or U8), scales U8 as E8M0
//	nvfp4          element * E4M3(scale) * global
//	fp8            F8 element * scale          one scale, or one per Block of rows x columns
//	others         Numbers                     what package formats/packing reads
type Quant struct {
	Mode      string
	Bits      int
	GroupSize int     // elements per scale along a row; 0 for fp8
	Block     [2]int  // fp8: rows and columns per scale; zero for one scale per tensor
	Shape     []int64 // of the numbers, row-major (the codes' own shape counts packed words)
	Weight    string  // name of the module's weight where the codes are stored under another name; "" otherwise
	Scales    *Tensor
	Biases    *Tensor // affine only
	Global    *Tensor // nvfp4: factor of the whole tensor, or one per leading index; nil without one

	// Numbers, of other modes, are the numbers themselves: F32, row after row, each value
	// that of the program that packed them before it rounds. Reading them unpacks them.
	// Such a module has no Scales, Biases and Global, but Companions.
	Numbers Data
	// Companions are further tensors of the module, some of which no number is made of:
	// those that scale activations.
	Companions []*Tensor
	// Float is the type in which programs compute with the numbers: F16, BF16 or, where the
	// model says so, F32. Unknown for modules that MLX quantised.
	Float DType
	// Same returns the numbers as a module of one of the modes above, nil where none has
	// all of them. It may read the companions.
	Same func() (*Tensor, error)
}

// ByRows reports whether each row of the numbers is made of its own rows of codes,
// scales and biases, so that rows can be moved as they are stored.
func (q *Quant) ByRows() bool { return q.GroupSize > 0 && q.Numbers == nil }

// Part is a run of a tensor's bytes with its own meaning, such as the scales
// after the codes.
type Part struct {
	Name   string `json:"name"`
	DType  string `json:"dtype"`
	Offset int64  `json:"offset"`
	Bytes  int64  `json:"bytes"`
}
