package ollama

import "strings"

// layerKind is what a layer holds: a row of kinds.
type layerKind uint8

const (
	kindUnknown layerKind = iota
	kindConfig
	kindModel
	kindTensor
	kindJSON
	kindProjector
	kindAdapter
	kindDraft
	kindTemplate
	kindSystem
	kindParams
	kindMessages
	kindLicense
)

// kindRow is what is true of the layers of a kind.
type kindRow struct {
	name  string // in messages, and the media type after mediaPrefix
	named bool   // layers have names
	last  bool   // Ollama uses the last layer of the kind only; of others every one counts
	gguf  bool   // layers are GGUF files
	text  bool   // layers become metadata
	json  bool   // as JSON
}

var kinds = [...]kindRow{
	kindUnknown:   {name: "unknown"},
	kindConfig:    {name: "config"}, // not a layer
	kindModel:     {name: "model", last: true, gguf: true},
	kindTensor:    {name: "tensor", named: true},
	kindJSON:      {name: "json", named: true},
	kindProjector: {name: "projector", gguf: true},
	kindAdapter:   {name: "adapter", gguf: true},
	kindDraft:     {name: "draft", last: true, gguf: true},
	kindTemplate:  {name: "template", last: true, text: true},
	kindSystem:    {name: "system", last: true, text: true},
	kindParams:    {name: "params", last: true, text: true, json: true},
	kindMessages:  {name: "messages", last: true, text: true, json: true},
	kindLicense:   {name: "license", text: true},
}

const mediaPrefix = "application/vnd.ollama.image."

// kindOf returns the kind of the layers of a media type. Layers of unknown ones,
// such as the obsolete embed, are not opened.
func kindOf(media string) layerKind {
	name, ok := strings.CutPrefix(media, mediaPrefix)
	if name == "prompt" { // in old manifests
		return kindTemplate
	}
	for k := kindModel; ok && int(k) < len(kinds); k++ {
		if kinds[k].name == name {
			return k
		}
	}
	return kindUnknown
}

func (k layerKind) row() *kindRow { return &kinds[k] }

func (k layerKind) String() string { return k.row().name }

// hasTensors reports whether the layers are files of tensors.
func (k layerKind) hasTensors() bool { return k == kindTensor || k.row().gguf }
