package lora

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/adapter"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/views"
)

// GGUFFile is the name of the file that [GGUF] returns.
const GGUFFile = "adapter.gguf"

// inF32 returns numbers as F32.
func inF32(name string, t *tensorfs.Tensor) (gguf.Stored, error) {
	d, err := views.Encode(t, tensorfs.F32)
	return gguf.Stored{Name: name, DType: tensorfs.F32, Shape: t.Shape, Data: d}, err
}

// GGUF returns, as [GGUFFile], what llama.cpp's convert_lora_to_gguf.py writes of the parts of an adapter, but with an
// alpha that gives the factor that the adapter has.
func GGUF(base *tensorfs.Model, a *adapter.Adapter, parts []Part) (tensorfs.Entries, error) {
	var list []gguf.Stored
	alpha := float32(parts[0].Scale * float64(parts[0].Rank))
	for _, p := range parts {
		if p.Magnitude != nil {
			return nil, formRefusal(a, p, "llama.cpp has no DoRA")
		}
		if own := float32(p.Scale * float64(p.Rank)); own != alpha {
			return nil, formRefusal(a, p, fmt.Sprintf("its alpha is %v, and %v of %s: a GGUF file has one alpha", own, alpha, parts[0].Base.Source))
		}
		x := p.A
		if p.Embedding {
			turned, err := Transposed(p.A)
			if err != nil {
				return nil, err
			}
			x = turned
		}
		for end, t := range map[string]*tensorfs.Tensor{adapter.GGUFPartA: x, adapter.GGUFPartB: p.B} {
			s, err := inF32(p.Base.Source+end, t)
			if err != nil {
				return nil, err
			}
			list = append(list, s)
		}
	}
	if alpha == 0 || math.IsInf(float64(alpha), 0) {
		return nil, errors.New("its factor is 0 or no number, which " + adapter.GGUFAlpha + " cannot say")
	}
	slices.SortFunc(list, func(a, b gguf.Stored) int { return strings.Compare(a.Name, b.Name) })
	d, err := gguf.Compose([]tensorfs.Meta{
		{Key: "general.architecture", Value: base.Architecture}, {Key: "general.type", Value: "adapter"}, {Key: adapter.GGUFType, Value: "lora"},
		{Key: adapter.GGUFAlpha, Value: alpha}, {Key: "general.quantization_version", Value: uint32(2)},
	}, list)
	return tensorfs.Entries{{Name: GGUFFile, Data: d}}, err
}

// formRefusal is an error about a part that a form does not have.
func formRefusal(a *adapter.Adapter, p Part, why string) error {
	return &tensorfs.FormatError{File: a.Path, Tensor: p.A.Source, Offset: -1, Problem: why, Kind: tensorfs.ErrUnsupported}
}

// PEFT returns the parts of an adapter as the files that PEFT saves. Their names are the base's own.
func PEFT(_ *tensorfs.Model, a *adapter.Adapter, parts []Part) (tensorfs.Entries, error) {
	var list []safetensors.Stored
	config := map[string]any{
		adapter.KeyType: adapter.TypeLoRA, "task_type": "CAUSAL_LM", adapter.KeyBase: a.Base, adapter.KeyBias: adapter.BiasNone, adapter.KeyFanInFanOut: false, "inference_mode": true,
		adapter.KeyInit: true, "lora_dropout": 0.0, adapter.KeyRSLoRA: false,
	}
	ranks, alphas := map[string]int64{}, map[string]float64{}
	rank, alpha := parts[0].Rank, alphaOf(parts[0])
	var targets []string
	dora := 0
	for _, p := range parts {
		module := strings.TrimSuffix(p.Base.Source, ".weight")
		if len(p.A.Shape) != 2 || module == p.Base.Source {
			return nil, formRefusal(a, p, "it is for a stack of experts, which PEFT stores in another way")
		}
		targets = append(targets, module)
		if p.Rank != rank {
			ranks[module] = p.Rank
		}
		if own := alphaOf(p); own != alpha {
			alphas[module] = own
		}
		names := []string{adapter.PartA + ".weight", adapter.PartB + ".weight", adapter.PartMagnitude}
		if p.Embedding {
			names = []string{adapter.PartEmbeddingA, adapter.PartEmbeddingB}
		}
		for i, t := range []*tensorfs.Tensor{p.A, p.B, p.Magnitude} {
			if t == nil {
				continue
			}
			s := safetensors.Stored{Name: adapter.Prefix + module + names[i], DType: t.DType, Shape: t.Shape, Data: t.Data}
			if t.DType.Kind() != tensorfs.KindFloat || t.BigEndian {
				f, err := inF32(s.Name, t)
				if err != nil {
					return nil, err
				}
				s.DType, s.Data = f.DType, f.Data
			}
			list = append(list, s)
		}
		if p.Magnitude != nil {
			dora++
		}
	}
	if dora > 0 && dora < len(parts) {
		return nil, errors.New("some of its weights have DoRA, and PEFT has one setting for all")
	}
	for key, value := range map[string]any{
		adapter.KeyRank: rank, adapter.KeyAlpha: alpha, adapter.KeyTargets: targets, adapter.KeyRanks: ranks, adapter.KeyAlphas: alphas, adapter.KeyDoRA: dora > 0,
	} {
		config[key] = value
	}
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b safetensors.Stored) int { return strings.Compare(a.Name, b.Name) })
	d, err := safetensors.Compose([][2]string{{"format", "pt"}}, list)
	return tensorfs.Entries{{Name: adapter.WeightsName, Data: d}, {Name: adapter.ConfigName, Data: tensorfs.Bytes(append(text, '\n'))}}, err
}

// alphaOf returns the alpha with which PEFT multiplies the product by the part's factor.
func alphaOf(p Part) float64 { return p.Scale * float64(p.Rank) }
