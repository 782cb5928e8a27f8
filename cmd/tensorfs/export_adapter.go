package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/adapter"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/formats/safetensors"
	"github.com/tensorfs/tensorfs/internal/cli"
	"github.com/tensorfs/tensorfs/internal/export"
	"github.com/tensorfs/tensorfs/internal/near"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/lora"
)

// adapterForms are the values of --adapter: the layout of the base, and what makes the files.
var adapterForms = map[string]struct {
	layout, base string
	files        func(base *tensorfs.Model, a *adapter.Adapter, parts []lora.Part) ([]export.File, error)
}{
	"gguf": {"gguf", "a GGUF file of the base, such as gguf/model.gguf of its mount", ggufAdapter},
	"peft": {"hf", "the base as a directory of Hugging Face or MLX", peftAdapter},
}

// adapterFile is the file in the form gguf.
const adapterFile = "adapter.gguf"

// exportAdapter writes the adapter of --lora in another form.
func (o *exportOptions) exportAdapter(cmd *cobra.Command, args []string) error {
	form, ok := adapterForms[o.to.adapter]
	switch {
	case !ok:
		return cli.UsageError{Err: fmt.Errorf("--adapter %s: want %s", tensorfs.Quote(o.to.adapter), near.Either([]string{"gguf", "peft"}))}
	case len(o.LoRA) != 1:
		return cli.UsageError{Err: errors.New("--adapter writes one adapter in another form; name it once with --lora")}
	}
	dir, err := filepath.Abs(args[1])
	if err != nil {
		return err
	}
	t, err := o.openPlain(args[0])
	if err != nil {
		return err
	}
	defer t.Model.Close()
	if t.Model.Layout != form.layout {
		return tensorfs.Unsupported(t.Model.Path, "--adapter "+o.to.adapter+" takes names and the order of rows from the base, which has another format", "name "+form.base)
	}
	m, by, err := o.remote.open().Formats(context.Background()).OpenAdapter(o.LoRA[0])
	if err != nil {
		return fmt.Errorf("--lora: %w", err)
	}
	defer m.Close()
	parts, a, err := lora.Parts(t.Model, views.Options{I2S: o.I2S}, lora.Use{Model: m, Adapter: by})
	if err != nil {
		return fmt.Errorf("--lora: %w", err)
	}
	files, err := form.files(t.Model, a, parts)
	if err != nil {
		return fmt.Errorf("--adapter %s: %w", o.to.adapter, err)
	}
	facts := []export.Fact{{What: "--adapter", Is: o.to.adapter}, {What: "scale", Is: fmt.Sprint(by.Scale)}, {What: factVersion, Is: version()}}
	var never []os.FileInfo
	for name, of := range map[string]*tensorfs.Model{"base": t.Model, "adapter": m} {
		more, own, err := sourceFacts(of, "file of the "+name+", ")
		if err != nil {
			return exportAdvice(err)
		}
		facts, never = append(facts, more...), append(never, own...)
	}
	slices.SortFunc(facts, func(a, b export.Fact) int { return strings.Compare(a.What, b.What) })
	ctx, stop := cli.Interruptible(cmd.Context())
	defer stop()
	done, err := export.Run(ctx, dir, files, export.Options{Facts: facts, ModTime: m.ModTime, Jobs: o.jobs, Force: o.force, Never: never, Check: m.Check, Free: o.free})
	if err != nil {
		return exportAdvice(err)
	}
	if o.json {
		return cli.PrintJSON(cmd.OutOrStdout(), exportReport{Directory: dir, Files: done.Files, Bytes: done.Bytes, Written: done.Written})
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), cli.Plural(done.Files, "file")+", "+cli.Size(done.Bytes))
	return err
}

// inF32 returns numbers as F32.
func inF32(name string, t *tensorfs.Tensor) (gguf.Stored, error) {
	d, err := views.Encode(t, tensorfs.F32)
	return gguf.Stored{Name: name, DType: tensorfs.F32, Shape: t.Shape, Data: d}, err
}

// ggufAdapter writes what llama.cpp's convert_lora_to_gguf.py writes of the adapter, but with an alpha that
// gives the factor that the adapter has.
func ggufAdapter(base *tensorfs.Model, a *adapter.Adapter, parts []lora.Part) ([]export.File, error) {
	var list []gguf.Stored
	alpha := float32(parts[0].Scale * float64(parts[0].Rank))
	for _, p := range parts {
		if p.Magnitude != nil {
			return nil, adapterRefusal(a, p, "llama.cpp has no DoRA")
		}
		if own := float32(p.Scale * float64(p.Rank)); own != alpha {
			return nil, adapterRefusal(a, p, fmt.Sprintf("its alpha is %v, and %v of %s: a GGUF file has one alpha", own, alpha, parts[0].Base.Source))
		}
		x := p.A
		if p.Embedding {
			turned, err := lora.Transposed(p.A)
			if err != nil {
				return nil, err
			}
			x = turned
		}
		for end, t := range map[string]*tensorfs.Tensor{".lora_a": x, ".lora_b": p.B} {
			s, err := inF32(p.Base.Source+end, t)
			if err != nil {
				return nil, err
			}
			list = append(list, s)
		}
	}
	if alpha == 0 || math.IsInf(float64(alpha), 0) {
		return nil, errors.New("its factor is 0 or no number, which adapter.lora.alpha cannot say")
	}
	slices.SortFunc(list, func(a, b gguf.Stored) int { return strings.Compare(a.Name, b.Name) })
	d, err := gguf.Compose([]tensorfs.Meta{
		{Key: "general.architecture", Value: base.Architecture}, {Key: "general.type", Value: "adapter"}, {Key: "adapter.type", Value: "lora"},
		{Key: "adapter.lora.alpha", Value: alpha}, {Key: "general.quantization_version", Value: uint32(2)},
	}, list)
	return []export.File{{Path: adapterFile, Data: d}}, err
}

// adapterRefusal is an error about a part that a form does not have.
func adapterRefusal(a *adapter.Adapter, p lora.Part, why string) error {
	return &tensorfs.FormatError{File: a.Path, Tensor: p.A.Source, Offset: -1, Problem: why, Kind: tensorfs.ErrUnsupported}
}

// peftAdapter writes an adapter as PEFT saves it.
func peftAdapter(_ *tensorfs.Model, a *adapter.Adapter, parts []lora.Part) ([]export.File, error) {
	var list []safetensors.Stored
	config := map[string]any{
		"peft_type": "LORA", "task_type": "CAUSAL_LM", "base_model_name_or_path": a.Base, "bias": "none", "fan_in_fan_out": false, "inference_mode": true,
		"init_lora_weights": true, "lora_dropout": 0.0, "use_rslora": false,
	}
	ranks, alphas := map[string]int64{}, map[string]float64{}
	rank, alpha := parts[0].Rank, alphaOf(parts[0])
	var targets []string
	dora := 0
	for _, p := range parts {
		module := strings.TrimSuffix(p.Base.Source, ".weight")
		if len(p.A.Shape) != 2 || module == p.Base.Source {
			return nil, adapterRefusal(a, p, "it is for a stack of experts, which PEFT stores in another way")
		}
		targets = append(targets, module)
		if p.Rank != rank {
			ranks[module] = p.Rank
		}
		if own := alphaOf(p); own != alpha {
			alphas[module] = own
		}
		names := []string{".lora_A.weight", ".lora_B.weight", ".lora_magnitude_vector"}
		if p.Embedding {
			names = []string{".lora_embedding_A", ".lora_embedding_B"}
		}
		for i, t := range []*tensorfs.Tensor{p.A, p.B, p.Magnitude} {
			if t == nil {
				continue
			}
			s := safetensors.Stored{Name: "base_model.model." + module + names[i], DType: t.DType, Shape: t.Shape, Data: t.Data}
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
	for key, value := range map[string]any{"r": rank, "lora_alpha": alpha, "target_modules": targets, "rank_pattern": ranks, "alpha_pattern": alphas, "use_dora": dora > 0} {
		config[key] = value
	}
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b safetensors.Stored) int { return strings.Compare(a.Name, b.Name) })
	d, err := safetensors.Compose([][2]string{{"format", "pt"}}, list)
	return []export.File{{Path: adapter.WeightsName, Data: d}, {Path: adapter.ConfigName, Data: tensorfs.Bytes(append(text, '\n'))}}, err
}

// alphaOf returns the alpha with which PEFT multiplies the product by the part's factor.
func alphaOf(p lora.Part) float64 { return p.Scale * float64(p.Rank) }
