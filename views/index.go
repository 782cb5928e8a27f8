package views

import (
	"encoding/base64"
	"maps"
	"slices"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/tensorfs/tensorfs"
)

// perPiece is how many entries of index.json are rendered at a time.
const perPiece = 128

// entryFields are reused fields of entries.
var entryFields = sync.Pool{New: func() any { return new(fields) }}

// Index returns index.json: every file of every view, and what each view leaves
// out and why. It is rendered when it is read.
func Index(m *tensorfs.Model, built []Built) *tensorfs.Text {
	type piece func(dst []byte) []byte
	pieces := []piece{func(dst []byte) []byte {
		dst = append(dst, "{\"version\":1,\n\"model\":"...)
		dst = AppendModel(dst, m)
		return append(dst, ",\n\"views\":{"...)
	}}
	text := func(s string) piece { return func(dst []byte) []byte { return append(dst, s...) } }
	entries := func(n int, entry func(dst []byte, i int) []byte) {
		for from := 0; from < n; from += perPiece {
			to := min(from+perPiece, n)
			pieces = append(pieces, func(dst []byte) []byte {
				for i := from; i < to; i++ {
					if i > 0 {
						dst = append(dst, ',')
					}
					dst = entry(append(dst, '\n'), i)
				}
				return dst
			})
		}
	}
	for i, v := range built {
		pieces = append(pieces, text(separator(i)+"\n"+strconv.Quote(v.Name)+":{"))
		entries(v.Tensors.Len(), func(dst []byte, i int) []byte {
			t := v.Tensors.At(i)
			f := entryFields.Get().(*fields)
			defer entryFields.Put(f)
			return appendEntry(dst, v.Name, &t, f)
		})
		pieces = append(pieces, text("}"))
	}
	pieces = append(pieces, text("},\n\"absent\":{"))
	n := 0
	for _, v := range built {
		if v.Absent.Len() == 0 {
			continue
		}
		pieces = append(pieces, text(separator(n)+"\n"+strconv.Quote(v.Name)+":{"))
		n++
		entries(v.Absent.Len(), func(dst []byte, i int) []byte {
			dst = append(tensorfs.AppendJSONString(dst, v.Absent.Name(i)), ':')
			return tensorfs.AppendJSONString(dst, v.Absent.Reason(i))
		})
		pieces = append(pieces, text("}"))
	}
	pieces = append(pieces, text("}}\n"))
	return tensorfs.NewText(len(pieces), func(dst []byte, i int) []byte { return pieces[i](dst) })
}

// AppendModel appends index.json's description of the model, as JSON.
func AppendModel(dst []byte, m *tensorfs.Model) []byte {
	dst = tensorfs.AppendJSONString(append(dst, `{"format":`...), m.Format)
	dst = tensorfs.AppendJSONString(append(dst, `,"path":`...), m.Path)
	dst = tensorfs.AppendJSONString(append(dst, `,"architecture":`...), m.Architecture)
	dst = tensorfs.AppendJSONString(append(dst, `,"layout":`...), m.Layout)
	if len(m.Adapters) > 0 {
		dst = appendList(append(dst, `,"lora":`...), m.Adapters, appendAdapter)
	}
	states := m.States()
	for i, name := range slices.Sorted(maps.Keys(states)) {
		s := states[name]
		dst = append(dst, []string{`,"files":[`, `,`}[min(i, 1)]...)
		dst = tensorfs.AppendJSONString(append(dst, `{"name":`...), name)
		dst = strconv.AppendInt(append(dst, `,"bytes":`...), s.Bytes, 10)
		dst = strconv.AppendUint(append(dst, `,"inode":`...), s.Inode, 10)
		if s.ModTime != 0 {
			dst = strconv.AppendInt(append(dst, `,"mtime_ns":`...), s.ModTime, 10)
			dst = strconv.AppendInt(append(dst, `,"ctime_ns":`...), s.ChangeTime, 10)
		}
		dst = append(dst, '}')
	}
	if len(states) > 0 {
		dst = append(dst, ']')
	}
	return append(dst, '}')
}

func separator(i int) string {
	if i > 0 {
		return ","
	}
	return ""
}

// appendEntry appends `"NAME":{...}`.
func appendEntry(dst []byte, view string, t *tensorfs.Tensor, f *fields) []byte {
	dst = append(tensorfs.AppendJSONString(dst, t.Name), ":{"...)
	f.list, f.json = f.list[:0], f.json[:0]
	f.describe(view, t)
	for i, p := range f.list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '"')
		dst = append(dst, p.Name...)
		dst = append(dst, `":`...)
		if p.json == nil {
			dst = tensorfs.AppendJSONString(dst, p.text)
		} else {
			dst = append(dst, p.json...)
		}
	}
	return append(dst, '}')
}

// Property is one fact about a tensor file, in index.json and as an extended
// attribute.
type Property struct {
	Name string
	text string
	json []byte // nil if it is text
}

// Value is the value as an extended attribute has it: text, or JSON.
func (p *Property) Value() []byte {
	if p.json == nil {
		return []byte(p.text)
	}
	return p.json
}

// Properties returns index.json's description of a tensor of a view, and the view's.
func Properties(view string, t *tensorfs.Tensor) []Property {
	var f fields
	f.describe(view, t)
	f.text("view", view)
	return f.list
}

// fields are the properties of a tensor. Values that are JSON lie in one buffer, so that
// they can be made for one tensor after another without garbage.
type fields struct {
	list []Property
	json []byte
}

func (f *fields) text(name, value string) {
	f.list = append(f.list, Property{Name: name, text: value})
}

// value adds a value that is JSON, which render appends.
func (f *fields) value(name string, render func(dst []byte) []byte) {
	from := len(f.json)
	f.json = render(f.json)
	f.add(name, f.json[from:])
}

func (f *fields) add(name string, json []byte) {
	f.list = append(f.list, Property{Name: name, json: json})
}

var yes = []byte("true")

// describe adds index.json's description of a tensor of a view.
func (f *fields) describe(view string, t *tensorfs.Tensor) {
	f.text("dtype", t.DType.String())
	f.value("shape", func(dst []byte) []byte { return appendShape(dst, t.Shape) })
	f.number("bytes", t.Data.Size())
	if utf8.ValidString(t.Source) {
		f.text("source_name", t.Source)
	} else {
		f.text("source_name_base64", base64.StdEncoding.EncodeToString([]byte(t.Source)))
	}
	if e := tensorfs.Extents(t.Data); e != nil {
		f.value("extents", func(dst []byte) []byte { return appendExtents(dst, e) })
	}
	if t.Change != nil {
		f.value("lora", func(dst []byte) []byte { return appendList(dst, t.Change.By, appendAdapter) })
	}
	if t.Factor != "" {
		f.text("factor", t.Factor)
	}
	if t.MayOverflow {
		f.add("may_overflow", yes)
	}
	if q := t.Quant; q != nil {
		f.value("quant", func(dst []byte) []byte {
			dst = strconv.AppendInt(append(dst, `{"bits":`...), int64(q.Bits), 10)
			dst = strconv.AppendInt(append(dst, `,"group_size":`...), int64(q.GroupSize), 10)
			return append(tensorfs.AppendJSONString(append(dst, `,"mode":`...), q.Mode), '}')
		})
	}
	if view == "raw" {
		f.storage(t)
	}
	if t.Parts != nil {
		f.value("sections", func(dst []byte) []byte { return appendParts(dst, t.Parts) })
	}
	if code, ok := EngineDType(view, t); ok {
		f.number("engine_dtype", int64(code))
	}
}

// appendAdapter writes an adapter that changes a tensor, or the model.
func appendAdapter(dst []byte, a tensorfs.Adapter) []byte {
	dst = tensorfs.AppendJSONString(append(dst, `{"source":`...), a.Source)
	return append(strconv.AppendFloat(append(dst, `,"scale":`...), a.Scale, 'g', -1, 64), '}')
}

func (f *fields) number(name string, n int64) {
	f.value(name, func(dst []byte) []byte { return strconv.AppendInt(dst, n, 10) })
}

// appendList appends a JSON list, whose elements one appends.
func appendList[T any](dst []byte, list []T, one func(dst []byte, x T) []byte) []byte {
	dst = append(dst, '[')
	for i, x := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = one(dst, x)
	}
	return append(dst, ']')
}

func appendShape(dst []byte, shape []int64) []byte {
	return appendList(dst, shape, func(dst []byte, d int64) []byte { return strconv.AppendInt(dst, d, 10) })
}

// appendPlace ends an object with a run of bytes.
func appendPlace(dst []byte, off, n int64) []byte {
	dst = strconv.AppendInt(append(dst, `,"offset":`...), off, 10)
	return append(strconv.AppendInt(append(dst, `,"bytes":`...), n, 10), '}')
}

// appendParts writes the parts of a file, which a kernel takes together.
func appendParts(dst []byte, parts []tensorfs.Part) []byte {
	return appendList(dst, parts, func(dst []byte, p tensorfs.Part) []byte {
		dst = tensorfs.AppendJSONString(append(dst, `{"name":`...), p.Name)
		dst = tensorfs.AppendJSONString(append(dst, `,"dtype":`...), p.DType)
		return appendPlace(dst, p.Offset, p.Bytes)
	})
}

// Module is raw/'s description of a quantised module's codes beyond quant: where the rest
// of the module is.
type Module struct {
	Weight string  `json:"weight"` // its name in the views that show its numbers
	Shape  []int64 `json:"shape"`  // of the numbers
	Block  *[2]int `json:"block,omitempty"`
	Shards int     `json:"shards,omitempty"` // runs of rows; each has blocks of its own
	Scales string  `json:"scales"`           // names of other files of raw/
	Biases string  `json:"biases,omitempty"`
	Global string  `json:"global,omitempty"`
}

// storage adds what there is to know of stored bytes beyond their type and shape.
func (f *fields) storage(t *tensorfs.Tensor) {
	if t.Quant != nil {
		f.value("module", func(dst []byte) []byte { return appendModule(dst, t) })
	}
	if t.BigEndian {
		f.add("big_endian", yes)
	}
	if t.Opaque != "" {
		f.text("opaque", t.Opaque)
	}
	if t.Apart != "" {
		f.text("apart", t.Apart)
	}
}

// appendModule writes the [Module] of quantised codes.
func appendModule(dst []byte, t *tensorfs.Tensor) []byte {
	q := t.Quant
	dst = tensorfs.AppendJSONString(append(dst, `{"weight":`...), t.Weight())
	dst = appendShape(append(dst, `,"shape":`...), q.Shape)
	if q.Block != [2]int{} {
		dst = appendShape(append(dst, `,"block":`...), []int64{int64(q.Block[0]), int64(q.Block[1])})
	}
	if q.Shards > 0 {
		dst = strconv.AppendInt(append(dst, `,"shards":`...), int64(q.Shards), 10)
	}
	name := func(key string, t *tensorfs.Tensor) {
		if t != nil {
			dst = tensorfs.AppendJSONString(append(dst, key...), t.Name)
		}
	}
	if q.Scales == nil {
		dst = append(dst, `,"scales":""`...)
	}
	name(`,"scales":`, q.Scales)
	name(`,"biases":`, q.Biases)
	name(`,"global":`, q.Global)
	return append(dst, '}')
}

// appendExtents writes file names like all other text: they may contain any bytes.
func appendExtents(dst []byte, extents []tensorfs.Extent) []byte {
	return appendList(dst, extents, func(dst []byte, e tensorfs.Extent) []byte {
		return appendPlace(tensorfs.AppendJSONString(append(dst, `{"file":`...), e.File), e.Offset, e.Bytes)
	})
}

// affineCodes are the numbers by which engines know MLX's affine widths.
var affineCodes = map[int]int{3: 99, 4: 100, 8: 101, 6: 102}

// EngineDType returns the number by which an engine picks its kernel: ggml's
// for ggml's types, 1 for F16, affineCodes for MLX. Not every view is for kernels.
func EngineDType(view string, t *tensorfs.Tensor) (int, bool) {
	switch {
	case !slices.ContainsFunc(All, func(v View) bool { return v.ForKernels && v.Name == view }):
		return 0, false
	case t.Quant == nil:
		return t.DType.GGML(), t.DType.GGML() >= 0
	case t.Quant.Mode == "affine":
		code, ok := affineCodes[t.Quant.Bits]
		return code, ok
	}
	return 0, false
}
