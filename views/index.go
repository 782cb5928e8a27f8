package views

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/tensorfs/tensorfs"
)

// perPiece is how many entries of index.json are rendered at a time.
const perPiece = 128

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
			return appendEntry(dst, v.Name, &t)
		})
		pieces = append(pieces, text("}"))
	}
	pieces = append(pieces, text("},\n\"absent\":{"))
	n := 0
	for _, v := range built {
		if len(v.Absent) == 0 {
			continue
		}
		pieces = append(pieces, text(separator(n)+"\n"+strconv.Quote(v.Name)+":{"))
		n++
		entries(len(v.Absent), func(dst []byte, i int) []byte {
			dst = append(tensorfs.AppendJSONString(dst, v.Absent[i].Name), ':')
			return tensorfs.AppendJSONString(dst, v.Absent[i].Reason)
		})
		pieces = append(pieces, text("}"))
	}
	pieces = append(pieces, text("}}\n"))
	return tensorfs.NewText(len(pieces), func(dst []byte, i int) []byte { return pieces[i](dst) })
}

// AppendModel appends what index.json says of the model, as JSON.
func AppendModel(dst []byte, m *tensorfs.Model) []byte {
	dst = tensorfs.AppendJSONString(append(dst, `{"format":`...), m.Format)
	dst = tensorfs.AppendJSONString(append(dst, `,"path":`...), m.Path)
	dst = tensorfs.AppendJSONString(append(dst, `,"architecture":`...), m.Architecture)
	dst = tensorfs.AppendJSONString(append(dst, `,"layout":`...), m.Layout)
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
func appendEntry(dst []byte, view string, t *tensorfs.Tensor) []byte {
	dst = append(tensorfs.AppendJSONString(dst, t.Name), ":{"...)
	for i, p := range Properties(view, t) {
		if p.Name == "view" {
			continue
		}
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '"')
		dst = append(dst, p.Name...)
		dst = append(dst, `":`...)
		if p.text {
			dst = tensorfs.AppendJSONString(dst, string(p.Value))
		} else {
			dst = append(dst, p.Value...)
		}
	}
	return append(dst, '}')
}

// Property is one fact about a tensor file, in index.json and as an extended
// attribute.
type Property struct {
	Name  string
	Value []byte // text, or JSON
	text  bool
}

// Properties returns what index.json says of a tensor of a view.
func Properties(view string, t *tensorfs.Tensor) []Property {
	shape := make([]byte, 0, 32)
	shape = append(shape, '[')
	for i, d := range t.Shape {
		if i > 0 {
			shape = append(shape, ',')
		}
		shape = strconv.AppendInt(shape, d, 10)
	}
	ps := []Property{
		{"dtype", []byte(t.DType.String()), true},
		{"shape", append(shape, ']'), false},
		{"bytes", strconv.AppendInt(nil, t.Data.Size(), 10), false},
	}
	if utf8.ValidString(t.Source) {
		ps = append(ps, Property{"source_name", []byte(t.Source), true})
	} else {
		ps = append(ps, Property{"source_name_base64", base64.StdEncoding.AppendEncode(nil, []byte(t.Source)), true})
	}
	if e := tensorfs.Extents(t.Data); e != nil {
		ps = append(ps, Property{"extents", extentsJSON(e), false})
	}
	if t.MayOverflow {
		ps = append(ps, Property{"may_overflow", []byte("true"), false})
	}
	if q := t.Quant; q != nil {
		ps = append(ps, Property{"quant", marshal(map[string]any{"mode": q.Mode, "bits": q.Bits, "group_size": q.GroupSize}), false})
	}
	if view == "raw" {
		ps = append(ps, storage(t)...)
	}
	if t.Parts != nil {
		ps = append(ps, Property{"sections", marshal(t.Parts), false})
	}
	if code, ok := EngineDType(view, t); ok {
		ps = append(ps, Property{"engine_dtype", strconv.AppendInt(nil, int64(code), 10), false})
	}
	return append(ps, Property{"view", []byte(view), true})
}

// Module is what raw/ says of the codes of a quantised module beyond its quant: where
// the rest of the module is.
type Module struct {
	Weight string  `json:"weight"` // its name in the views that show its numbers
	Shape  []int64 `json:"shape"`  // of the numbers
	Block  *[2]int `json:"block,omitempty"`
	Scales string  `json:"scales"` // names of other files of raw/
	Biases string  `json:"biases,omitempty"`
	Global string  `json:"global,omitempty"`
}

// storage returns what there is to know of stored bytes beyond their type and shape.
func storage(t *tensorfs.Tensor) (ps []Property) {
	if q := t.Quant; q != nil {
		m := Module{Weight: t.Weight(), Shape: q.Shape}
		if q.Block != [2]int{} {
			m.Block = &q.Block
		}
		for _, c := range []struct {
			to   *string
			from *tensorfs.Tensor
		}{{&m.Scales, q.Scales}, {&m.Biases, q.Biases}, {&m.Global, q.Global}} {
			if c.from != nil {
				*c.to = c.from.Name
			}
		}
		ps = append(ps, Property{"module", marshal(m), false})
	}
	if t.BigEndian {
		ps = append(ps, Property{"big_endian", []byte("true"), false})
	}
	if t.Opaque != "" {
		ps = append(ps, Property{"opaque", []byte(t.Opaque), true})
	}
	if t.Apart != "" {
		ps = append(ps, Property{"apart", []byte(t.Apart), true})
	}
	return ps
}

// extentsJSON writes file names like all other text: they may contain any bytes.
func extentsJSON(extents []tensorfs.Extent) []byte {
	b := []byte{'['}
	for i, e := range extents {
		if i > 0 {
			b = append(b, ',')
		}
		b = tensorfs.AppendJSONString(append(b, `{"file":`...), e.File)
		b = strconv.AppendInt(append(b, `,"offset":`...), e.Offset, 10)
		b = strconv.AppendInt(append(b, `,"bytes":`...), e.Bytes, 10)
		b = append(b, '}')
	}
	return append(b, ']')
}

func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // plain structs of strings and numbers
	}
	return b
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
