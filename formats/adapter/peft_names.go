package adapter

import (
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
)

// prefixes begin PEFT's names, as often as a model was wrapped.
var prefixes = []string{Prefix, "module."}

// wrappers are modules that torch and trainers put around others, anywhere in a name.
var wrappers = []string{"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}

// unwrapped returns a tensor's name as the base's own module has it.
func unwrapped(name string) string {
	if strings.Contains(name, "_") {
		parts := strings.Split(name, ".")
		name = strings.Join(slices.DeleteFunc(parts, func(p string) bool { return slices.Contains(wrappers, p) }), ".")
	}
	for {
		rest := name
		for _, p := range prefixes {
			rest = strings.TrimPrefix(rest, p)
		}
		if rest == name {
			return name
		}
		name = rest
	}
}

// part is what a tensor is to its module.
type part struct {
	mark string // in the name, and what may follow the name of the adapter
	to   func(x *Module) **tensorfs.Tensor
	end  string
}

var parts = []part{
	{PartA, func(x *Module) **tensorfs.Tensor { return &x.A }, ".weight"},
	{PartB, func(x *Module) **tensorfs.Tensor { return &x.B }, ".weight"},
	{PartB, func(x *Module) **tensorfs.Tensor { return &x.Bias }, ".bias"},
	{PartEmbeddingA, func(x *Module) **tensorfs.Tensor { x.Embedding = true; return &x.A }, ""},
	{PartEmbeddingB, func(x *Module) **tensorfs.Tensor { x.Embedding = true; return &x.B }, ""},
	{PartMagnitude, func(x *Module) **tensorfs.Tensor { return &x.Magnitude }, ""},
	{PartMagnitude, func(x *Module) **tensorfs.Tensor { return &x.Magnitude }, ".weight"},
	{".token_adapter.trainable_tokens_delta", func(x *Module) **tensorfs.Tensor { return &x.Tokens }, ""},
	{".modules_to_save", func(x *Module) **tensorfs.Tensor { return &x.Saved }, ".weight"},
	{".modules_to_save", func(x *Module) **tensorfs.Tensor { return &x.WholeBias }, ".bias"},
}

// whole are a module's weight and bias by their own names.
var ownNames = []part{
	{end: ".weight", to: func(x *Module) **tensorfs.Tensor { return &x.Weight }},
	{end: ".bias", to: func(x *Module) **tensorfs.Tensor { return &x.WholeBias }},
}

const (
	baseLayer = ".base_layer"
	original  = ".original_module."
)

// isBase reports whether a tensor is the base's own: with the embeddings PEFT saves what is below its own modules, too,
// which may be a quantised weight and the tensors beside it.
func isBase(name string) bool {
	if strings.Contains(name, original) {
		return true
	}
	at := strings.LastIndex(name, baseLayer+".")
	if at < 0 {
		return false
	}
	below := name[at+len(baseLayer):]
	return below != ".bias" && !strings.Contains(below, ".lora_")
}

// split returns the module and the part that a name means, and the name of an adapter in it.
func split(name string) (module string, p *part, adapter string) {
	for i := range parts {
		p := &parts[i]
		rest, ok := strings.CutSuffix(name, p.end)
		if !ok {
			continue
		}
		at := strings.LastIndex(rest, p.mark)
		if at < 1 {
			continue
		}
		switch after := rest[at+len(p.mark):]; {
		case after == "":
			return rest[:at], p, ""
		case after[0] == '.' && len(after) > 1 && !strings.Contains(after[1:], "."):
			return rest[:at], p, after[1:]
		}
	}
	for i := range ownNames {
		if module, ok := strings.CutSuffix(name, ownNames[i].end); ok && module != "" && !strings.Contains(name, ".lora_") {
			return module, &ownNames[i], ""
		}
	}
	return "", nil, ""
}
