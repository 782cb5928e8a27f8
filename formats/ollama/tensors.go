package ollama

import (
	"fmt"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/config"
	"github.com/tensorfs/tensorfs/formats/names"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/assemble"
	"github.com/tensorfs/tensorfs/internal/source"
)

// layerTensor is where a tensor of builder.tensors comes from, and what belongs to it.
type layerTensor struct {
	layer     *layer
	blob      *tensorBlob
	key       string // in the blob's header
	weightKey string // key of its weight, for companions
	module    string // path of its module in config.json: no .weight, no component

	scale, bias, global *tensorfs.Tensor // companions, for weights
	owned               bool             // is such a companion
}

// tensorBlob is a parsed blob of tensors.
type tensorBlob struct {
	file *safetensors.File
	keys []string
	at   map[string]int // by key: which of file.Tensors
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

// setting returns the metadata's value for the tensor of a key, or for all tensors.
func (b *tensorBlob) setting(key, name string) string {
	if own, ok := b.meta[key+"."+name]; ok {
		return own
	}
	return b.meta[name]
}

// holdsCodes reports whether the tensor of a key can hold quantised codes.
func (b *tensorBlob) holdsCodes(key string) bool {
	i, ok := b.at[key]
	return ok && b.file.Tensors[i].DType == tensorfs.U32
}

// tensorModel reads a model whose layers are tensors.
func (b *builder) tensorModel() error {
	origins, err := b.origins()
	if err != nil {
		return err
	}
	var get config.Lookup
	b.out.Architecture, b.out.Layout = "unknown", "hf"
	if root := b.configs[""]; root != nil {
		get = root.root.Lookup
		b.out.Architecture = config.Architecture(get)
	}
	for _, w := range b.tensors.Name(names.Ollama, b.out.Architecture) {
		b.warn("%s", w)
	}
	b.pair(origins)
	for i := range origins {
		b.quantise(&b.tensors.List[i], &origins[i])
	}
	b.out.Config = b.tensors.Config(get)
	b.tensors.Apart(b.out.Dim())
	b.out.Tensors = b.tensors.List
	return nil
}

// origins opens the tensor layers and lists their tensors.
func (b *builder) origins() ([]layerTensor, error) {
	parsed := make(map[digest]*tensorBlob)
	var origins []layerTensor
	var blobs []string
	for i := range b.manifest.layers {
		if l := &b.manifest.layers[i]; l.kind == kindTensor {
			blobs = append(blobs, l.digest.name())
		}
	}
	defer source.Prepare(b.blobs.src, blobs)()
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
				return nil, fmt.Errorf("%s: %w", l, refetch(err))
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
			if other, ok := b.tensors.Add(tensorfs.Tensor{Source: x.source, DType: t.DType, Shape: t.Shape, Data: t.Data}); !ok {
				return nil, &tensorfs.FormatError{File: b.path, Tensor: x.source, Offset: -1, Problem: fmt.Sprintf("it is in the %s and in the %s", origins[other].layer, l),
					Advice: pull}
			}
			_, rest := component(x.source)
			origins = append(origins, layerTensor{layer: l, blob: blob, key: x.key, weightKey: x.weightKey, module: strings.TrimSuffix(rest, ".weight")})
		}
	}
	return origins, nil
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

// pair gives weights their companions: tensors of the same blob, and tensors in layers
// of their own, as all companions are in models of January 2026.
func (b *builder) pair(origins []layerTensor) {
	type inLayer struct {
		layer *layer
		key   string
	}
	at := make(map[inLayer]*layerTensor, len(origins))
	for i := range origins {
		at[inLayer{origins[i].layer, origins[i].key}] = &origins[i]
	}
	for i := range origins {
		e, t := &origins[i], &b.tensors.List[i]
		if e.weightKey == "" {
			continue
		}
		w := at[inLayer{e.layer, e.weightKey}]
		switch e.key[len(e.weightKey):] {
		case suffixScale:
			w.scale = t
		case suffixBias:
			w.bias = t
		case suffixGlobal:
			w.global = t
		}
		e.owned = true
	}
	// takeCompanion returns the tensor of a name if ok accepts it, and makes it a companion.
	takeCompanion := func(source string, ok func(e *layerTensor) bool) *tensorfs.Tensor {
		i, found := b.tensors.Find(source)
		if !found || !ok(&origins[i]) {
			return nil
		}
		origins[i].owned = true
		return &b.tensors.List[i]
	}
	isData := func(e *layerTensor) bool { return e.key == keyData }
	isFree := func(e *layerTensor) bool { return !e.owned }
	for i := range origins {
		e, t := &origins[i], &b.tensors.List[i]
		if e.owned || t.DType != tensorfs.U32 {
			continue
		}
		if e.scale == nil && isData(e) {
			if e.scale = takeCompanion(t.Source+"_scale", isData); e.scale != nil {
				e.bias = takeCompanion(t.Source+"_qbias", isData)
			}
		}
		if stem, ok := strings.CutSuffix(t.Source, ".weight"); ok && e.scale != nil && e.global == nil {
			if e.global = takeCompanion(t.Source+suffixGlobal, isFree); e.global == nil {
				e.global = takeCompanion(stem+".weight_scale_2", isFree)
			}
		}
	}
}

// quantise finds out how a weight's codes become numbers.
func (b *builder) quantise(t *tensorfs.Tensor, e *layerTensor) {
	if e.owned {
		return
	}
	m := module{weight: t, scale: e.scale, bias: e.bias, global: e.global, path: e.module}
	m.kind = e.blob.setting(e.key, "quant_type")
	m.group = e.blob.setting(e.key, "group_size")
	if e.scale == nil && (m.kind == "" || t.DType != tensorfs.U32) {
		isF8 := t.DType == tensorfs.F8_E4M3 || t.DType == tensorfs.F8_E5M2
		if isF8 && (b.tensors.Source(t.Source+"_scale") != nil || b.tensors.Source(t.Source+"_scale_inv") != nil) {
			t.Opaque = "it needs the scales beside it, and how is not known for Ollama's models; see raw/"
		}
		return
	}
	part, rest := component(t.Source)
	m.config = b.configs[part]
	m.columns = func() (int64, bool) {
		prefix := t.Source[:len(t.Source)-len(rest)]
		return m.config.columns(e.module, func(path string) (int64, bool) {
			if w := b.tensors.Source(prefix + path + ".weight"); w != nil && len(w.Shape) >= 2 {
				return w.Shape[len(w.Shape)-2], true
			}
			return 0, false
		})
	}
	q, err := m.resolve()
	if err == nil {
		assemble.Attach(t, q)
		return
	}
	t.Opaque = fmt.Sprintf("its codes cannot be decoded: %v; see raw/", err)
	for _, c := range []*tensorfs.Tensor{e.scale, e.bias, e.global} {
		if c != nil {
			c.Opaque = "it belongs to " + tensorfs.Quote(t.Source) + ", whose codes cannot be decoded; see raw/"
		}
	}
}
