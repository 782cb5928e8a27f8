package ollama

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/config"
	"github.com/tensorfs/tensorfs/formats/names"
	"github.com/tensorfs/tensorfs/formats/safetensors"
)

// entry is a tensor of a tensor model while the model is put together.
type entry struct {
	tensorfs.Tensor
	layer  *layer
	blob   *tensorBlob
	key    string // in the blob's header
	of     string // key of its weight, for companions
	module string // path of its module in config.json: no .weight, no component

	scale, bias, global *entry // companions, for weights
	owned               bool   // is such a companion
}

// tensorBlob is a parsed blob of tensors.
type tensorBlob struct {
	file *safetensors.File
	keys []string
	at   map[string]int // key to place in file.Tensors
	meta map[string]string
}

func newTensorBlob(f *safetensors.File) *tensorBlob {
	b := &tensorBlob{file: f, at: make(map[string]int, len(f.Tensors)), meta: make(map[string]string, len(f.Metadata))}
	for i := range f.Tensors {
		b.keys = append(b.keys, f.Tensors[i].Name)
		b.at[f.Tensors[i].Name] = i
	}
	for _, kv := range f.Metadata {
		b.meta[kv[0]] = kv[1]
	}
	return b
}

// holdsCodes reports whether the tensor of a key can hold quantised codes.
func (b *tensorBlob) holdsCodes(key string) bool {
	i, ok := b.at[key]
	return ok && b.file.Tensors[i].DType == tensorfs.U32
}

// tensorModel reads a model whose layers are tensors.
func (b *builder) tensorModel() error {
	entries, err := b.entries()
	if err != nil {
		return err
	}
	all := make(map[string]*entry, len(entries))
	for _, e := range entries {
		if other := all[e.Source]; other != nil {
			return &tensorfs.FormatError{File: b.path, Tensor: e.Source, Offset: -1, Problem: fmt.Sprintf("it is in the %s and in the %s", other.layer, e.layer),
				Advice: "fetch the model again with 'ollama pull'"}
		}
		all[e.Source] = e
	}
	pair(entries, all)
	for _, e := range entries {
		b.quantise(e, all)
	}
	root := b.configs[""]
	var get config.Lookup
	b.out.Architecture, b.out.Layout = "unknown", "hf"
	if root != nil {
		get = root.root.Lookup
		b.out.Architecture = config.Architecture(get)
	}
	b.nameEntries(entries)
	shapes := make(map[string][]int64, len(entries))
	for _, e := range entries {
		b.out.Tensors = append(b.out.Tensors, e.Tensor)
		shapes[e.Name] = e.Numbers()
	}
	b.out.Config = config.FromHF(get, func(name string) ([]int64, bool) { s, ok := shapes[name]; return s, ok }, layerCount(entries))
	dim := b.out.Dim()
	for i, e := range entries {
		b.out.Tensors[i].Apart = names.Apart(b.out.Architecture, e.Name, e.Numbers(), dim)
	}
	return nil
}

// entries opens the tensor layers and lists their tensors.
func (b *builder) entries() ([]*entry, error) {
	parsed := make(map[digest]*tensorBlob)
	var entries []*entry
	for i := range b.manifest.layers {
		l := &b.manifest.layers[i]
		if l.kind != kindTensor {
			continue
		}
		m, err := b.mapped(i)
		if err != nil {
			return nil, err
		}
		blob := parsed[l.digest]
		if blob == nil {
			f, err := safetensors.Parse(m)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", l, err)
			}
			blob = newTensorBlob(f)
			parsed[l.digest] = blob
			for _, w := range f.Warnings {
				b.warn("%s: %s", l, w)
			}
		}
		ms, problem := members(l.name, blob.keys, blob.holdsCodes)
		if problem != "" {
			return nil, b.damaged(l, "%s", problem)
		}
		for _, x := range ms {
			t := &blob.file.Tensors[blob.at[x.key]]
			_, rest := component(x.source)
			entries = append(entries, &entry{
				Tensor: tensorfs.Tensor{Source: x.source, DType: t.DType, Shape: t.Shape, Data: t.Data},
				layer:  l, blob: blob, key: x.key, of: x.of, module: strings.TrimSuffix(rest, ".weight"),
			})
		}
	}
	return entries, nil
}

// component splits the part of a model that a tensor belongs to off its name:
// "" for the model itself.
func component(source string) (name, rest string) {
	if rest, ok := strings.CutPrefix(source, "draft."); ok {
		return "draft", rest
	}
	if name, rest, ok := strings.Cut(source, "/"); ok {
		return name, rest
	}
	return "", source
}

// pair gives weights their companions: those of their blob, and those that
// have layers of their own, as all have in models of January 2026.
func pair(entries []*entry, all map[string]*entry) {
	type place struct {
		l   *layer
		key string
	}
	at := make(map[place]*entry, len(entries))
	for _, e := range entries {
		at[place{e.layer, e.key}] = e
	}
	for _, e := range entries {
		if e.of == "" {
			continue
		}
		w := at[place{e.layer, e.of}]
		switch e.key[len(e.of):] {
		case suffixScale:
			w.scale = e
		case suffixBias:
			w.bias = e
		case suffixGlobal:
			w.global = e
		}
		e.owned = true
	}
	for _, e := range entries {
		if e.owned || e.DType != tensorfs.U32 {
			continue
		}
		if s := all[e.Source+"_scale"]; e.scale == nil && e.key == keyData && s != nil && s.key == keyData {
			e.scale = s.own()
			if q := all[e.Source+"_qbias"]; q != nil && q.key == keyData {
				e.bias = q.own()
			}
		}
		if stem, ok := strings.CutSuffix(e.Source, ".weight"); ok && e.scale != nil && e.global == nil {
			for _, name := range []string{e.Source + suffixGlobal, stem + ".weight_scale_2"} {
				if g := all[name]; g != nil && !g.owned {
					e.global = g.own()
					break
				}
			}
		}
	}
}

func (e *entry) own() *entry {
	e.owned = true
	return e
}

// quantise finds out how a weight's codes become numbers.
func (b *builder) quantise(e *entry, all map[string]*entry) {
	if e.owned {
		return
	}
	m := module{weight: e, scale: e.scale, bias: e.bias, global: e.global}
	var own bool
	if m.kind, own = e.blob.meta[e.key+".quant_type"]; !own {
		m.kind = e.blob.meta["quant_type"]
	}
	if m.group, own = e.blob.meta[e.key+".group_size"]; !own {
		m.group = e.blob.meta["group_size"]
	}
	if e.scale == nil && (m.kind == "" || e.DType != tensorfs.U32) {
		if f8(e.DType) && (all[e.Source+"_scale"] != nil || all[e.Source+"_scale_inv"] != nil) {
			e.Opaque = "it needs the scales beside it, and how is not known for Ollama's models; see raw/"
		}
		return
	}
	part, rest := component(e.Source)
	m.config = b.configs[part]
	m.columns = func() (int64, bool) {
		prefix := e.Source[:len(e.Source)-len(rest)]
		return m.config.columns(e.module, func(path string) (int64, bool) {
			if w := all[prefix+path+".weight"]; w != nil && len(w.Shape) >= 2 {
				return w.Shape[len(w.Shape)-2], true
			}
			return 0, false
		})
	}
	p, reason := m.resolve()
	companions := slices.DeleteFunc([]*entry{e.scale, e.bias, e.global}, func(c *entry) bool { return c == nil })
	if reason != "" {
		e.Opaque = "its codes cannot be decoded: " + reason + "; see raw/"
		for _, c := range companions {
			c.Opaque = "it belongs to " + tensorfs.Quote(e.Source) + ", whose codes cannot be decoded; see raw/"
		}
		return
	}
	e.Quant = &tensorfs.Quant{Mode: p.mode, Bits: int(p.bits), GroupSize: int(p.group), Shape: p.shape(e.Shape), Scales: &e.scale.Tensor}
	if e.bias != nil {
		e.Quant.Biases = &e.bias.Tensor
	}
	if e.global != nil {
		e.Quant.Global = &e.global.Tensor
	}
}

func f8(t tensorfs.DType) bool { return t == tensorfs.F8_E4M3 || t == tensorfs.F8_E5M2 }

// nameEntries gives the tensors their canonical names, and companions their
// owners.
func (b *builder) nameEntries(entries []*entry) {
	src := make([]names.Source, len(entries))
	for i, e := range entries {
		src[i] = names.Source{Name: e.Source, Shape: e.Numbers()}
	}
	for i, r := range names.Map(names.Ollama, b.out.Architecture, src) {
		entries[i].Name = r.Name
		if r.Reason != "" {
			b.warn("tensor %s", r.Reason)
		}
	}
	for _, e := range entries {
		if e.Quant == nil {
			continue
		}
		for _, c := range []*tensorfs.Tensor{e.Quant.Scales, e.Quant.Biases, e.Quant.Global} {
			if c != nil {
				c.Owner = e.Name
			}
		}
	}
}

// layerCount returns 1 + the highest number among the names of layers.
func layerCount(entries []*entry) int {
	n := 0
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.Name, "layers.")
		number, _, dot := strings.Cut(rest, ".")
		if i, err := strconv.ParseUint(number, 10, 20); ok && dot && err == nil {
			n = max(n, int(i)+1)
		}
	}
	return n
}
