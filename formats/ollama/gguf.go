package ollama

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/formats/names"
	"github.com/tensorfs/tensorfs/internal/assemble"
)

// towers start canonical names that no language model has. A projector's
// tensors keep them.
var towers = []string{"vision.", "audio.", "projector."}

// ggufModel reads a model whose layers are GGUF files.
func (b *builder) ggufModel() error {
	taken := make(map[string]bool)
	var rest []int
	for i, l := range b.manifest.layers {
		switch {
		case !l.kind.row().gguf || b.labels[i] == "":
		case l.kind != kindModel:
			rest = append(rest, i)
		default:
			f, ts, err := b.ggufFile(i)
			if err != nil {
				return err
			}
			b.out.Architecture, b.out.Layout = f.Architecture(), "gguf"
			b.out.Metadata = append(b.out.Metadata, f.Metadata...)
			b.out.Config = ts.Config(f.Lookup)
			b.add(f.Tensors, taken)
		}
	}
	for _, i := range rest {
		f, _, err := b.ggufFile(i)
		if err != nil {
			return err
		}
		prefix := strings.TrimSuffix(b.labels[i], ".gguf") + "."
		for _, m := range f.Metadata {
			b.out.Metadata = append(b.out.Metadata, tensorfs.Meta{Key: prefix + m.Key, Value: m.Value})
		}
		b.rename(f.Tensors, b.manifest.layers[i].kind == kindProjector, prefix, taken)
		b.add(f.Tensors, taken)
	}
	return nil
}

// ggufFile parses the blob of layer i and names its tensors.
func (b *builder) ggufFile(i int) (*gguf.File, *assemble.Tensors, error) {
	l := &b.manifest.layers[i]
	m, err := b.mapped(i)
	if err != nil {
		return nil, nil, err
	}
	f, err := gguf.Parse(m)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", l, refetch(err))
	}
	if n, err := f.Shards(); err != nil || n > 1 {
		return nil, nil, b.damaged(l, "it is one of several shards, and a manifest cannot name the rest")
	}
	ts := &assemble.Tensors{List: f.Tensors}
	for _, w := range ts.Name(names.GGUF, f.Architecture()) {
		b.warn("%s: %s", b.labels[i], w)
	}
	return f, ts, nil
}

// rename puts prefix before the names of a second file's tensors. A projector's tensors
// keep their names if these are names of a tower, unless a name is taken.
func (b *builder) rename(ts []tensorfs.Tensor, projector bool, prefix string, taken map[string]bool) {
	inTower := func(name string) bool {
		return slices.ContainsFunc(towers, func(t string) bool { return strings.HasPrefix(name, t) })
	}
	keep := projector && !slices.ContainsFunc(ts, func(t tensorfs.Tensor) bool { return inTower(t.Name) && taken[t.Name] })
	for i := range ts {
		t := &ts[i]
		if keep && inTower(t.Name) {
			continue
		}
		t.Name = prefix + t.Name
		if taken[t.Name] { // only a source name can look like that
			sum := sha256.Sum256([]byte(prefix + t.Source))
			t.Name += "~" + hex.EncodeToString(sum[:4])
			b.warn("tensor %s has a mark after its name, because another tensor has the same name", tensorfs.Quote(t.Source))
		}
	}
}

func (b *builder) add(ts []tensorfs.Tensor, taken map[string]bool) {
	for i := range ts {
		taken[ts[i].Name] = true
	}
	b.out.Tensors = append(b.out.Tensors, ts...)
}
