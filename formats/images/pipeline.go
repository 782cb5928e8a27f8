package images

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// PipelineFile is the file of diffusers that names the parts of a pipeline.
const PipelineFile = "model_index.json"

// Pipeline is what a PipelineFile describes.
type Pipeline struct {
	Class string // such as FluxPipeline
	Parts []Part // sorted by Name
}

// Part is a part of a pipeline: a model, or a scheduler, a tokenizer and the like. It is a directory
// below the pipeline's.
type Part struct {
	Name    string `json:"name"`
	Library string `json:"library"` // that has the class: diffusers, transformers
	Class   string `json:"class"`
}

// ParsePipeline reads the text of a PipelineFile.
func ParsePipeline(text []byte) (*Pipeline, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, fmt.Errorf("%s: it is not a JSON object", PipelineFile)
	}
	p := &Pipeline{}
	_ = json.Unmarshal(members["_class_name"], &p.Class) // "" if it is missing
	for _, name := range slices.Sorted(maps.Keys(members)) {
		var of []*string
		if strings.Contains(name, "/") || strings.HasPrefix(name, ".") {
			continue // it is not the name of a directory below the pipeline's
		}
		if json.Unmarshal(members[name], &of) == nil && len(of) == 2 && of[0] != nil && of[1] != nil { // null is a part that is left out
			p.Parts = append(p.Parts, Part{name, *of[0], *of[1]})
		}
	}
	return p, nil
}

// Part returns the part of a name, nil without one.
func (p *Pipeline) Part(name string) *Part {
	if i := slices.IndexFunc(p.Parts, func(x Part) bool { return x.Name == name }); i >= 0 {
		return &p.Parts[i]
	}
	return nil
}

// TokenizerOf returns the name of the part that is the tokenizer of a text encoder: tokenizer_2 of
// text_encoder_2. It is "" for other parts.
func TokenizerOf(part string) string {
	number, ok := strings.CutPrefix(part, "text_encoder")
	if !ok || number != "" && (len(number) < 2 || number[0] != '_' || strings.Trim(number[1:], "0123456789") != "") {
		return ""
	}
	return "tokenizer" + number
}
