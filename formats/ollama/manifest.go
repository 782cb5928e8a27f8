package ollama

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tensorfs/tensorfs"
)

// manifest is what is used of one.
type manifest struct {
	config *layer
	layers []layer // of known kinds; a layer that is listed twice is there once, where its order does not count
}

// layer is a blob and what it is to the model.
type layer struct {
	kind   layerKind
	digest digest
	size   int64
	name   string // kindTensor and kindJSON only
}

// A manifest as Ollama writes it, and what is read of it:
//
//	{"schemaVersion":2, "mediaType":"...",                  not looked at, nor are unknown fields
//	 "config":{"digest":"sha256:..","size":485},            may be missing
//	 "layers":[{"mediaType":"application/vnd.ollama.image.tensor",
//	            "digest":"sha256:..", "size":123, "name":".."}, ...]}
type manifestJSON struct {
	Config *layerJSON   `json:"config"`
	Layers []*layerJSON `json:"layers"`
}

type layerJSON struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      *int64 `json:"size"`
	Name      string `json:"name"`
}

// absent is what layers holds when a text has no such field. null is not that:
// Ollama writes null for an empty list.
var absent = new(layerJSON)

// parseManifest parses the text of a manifest: one JSON object and nothing
// after it, no key twice in an object. path is for messages.
func parseManifest(path string, text []byte) (*manifest, error) {
	failAt := func(off int64, problem string) error {
		return &tensorfs.FormatError{File: path, Offset: off, Problem: problem, Advice: pull}
	}
	fail := func(format string, args ...any) error { return failAt(-1, fmt.Sprintf(format, args...)) }
	raw := manifestJSON{Layers: []*layerJSON{absent}}
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, failAt(notManifest(text, err))
	}
	switch none := len(raw.Layers) == 1 && raw.Layers[0] == absent; {
	case jsontext.Value(text).Kind() == 'n':
		return nil, fail("the manifest is not an object")
	case none:
		return nil, fail("the manifest has no layers")
	}
	var m manifest
	if c := raw.Config; c != nil && c.Digest != "" { // an empty digest means that there is no config
		l, problem := c.layer(kindConfig)
		if problem != "" {
			return nil, fail("the config: %s", problem)
		}
		m.config = &l
	}
	seen := make(map[layer]bool)
	for i, r := range raw.Layers {
		if r == nil {
			return nil, fail("layer %d is not an object", i+1)
		}
		k := kindOf(r.MediaType)
		if k == kindUnknown {
			continue
		}
		l, problem := r.layer(k)
		if problem != "" {
			what := k.String()
			if r.Name != "" {
				what += " " + tensorfs.Quote(r.Name)
			}
			return nil, fail("layer %d (%s): %s", i+1, what, problem)
		}
		if !k.row().last && seen[l] { // where only the last layer of a kind is used, the order counts
			continue
		}
		seen[l] = true
		m.layers = append(m.layers, l)
	}
	return &m, nil
}

// layer returns what a layer is, or what is wrong with it.
func (r *layerJSON) layer(k layerKind) (l layer, problem string) {
	d, err := parseDigest(r.Digest)
	switch {
	case err != nil:
		return l, err.Error()
	case r.Size == nil:
		return l, d.String() + ": it has no size"
	case *r.Size < 0:
		return l, fmt.Sprintf("%s: its size is %d", d, *r.Size)
	}
	l = layer{kind: k, digest: d, size: *r.Size}
	if k.row().named {
		if problem := nameProblem(r.Name); problem != "" {
			return l, "its name " + problem
		}
		l.name = r.Name
	}
	return l, ""
}

// wanted are the types of a manifest's fields in words.
var wanted = map[reflect.Kind]string{
	reflect.Struct: "an object", reflect.Slice: "an array", reflect.String: "text", reflect.Int64: "an integer of 64 bits",
}

// notManifest turns an error of the JSON library into one line. It also returns its offset
// in the text, negative if unknown.
func notManifest(text []byte, err error) (off int64, problem string) {
	const invalid = "the manifest is not valid JSON: "
	if e, ok := errors.AsType[*json.SemanticError](err); ok && e.GoType != nil {
		what := "the manifest"
		if e.JSONPointer != "" {
			what = tensorfs.Quote(string(e.JSONPointer)) + " of the manifest"
		}
		return e.ByteOffset, what + " is not " + wanted[e.GoType.Kind()]
	}
	e, ok := errors.AsType[*jsontext.SyntacticError](err)
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return -1, "the manifest is empty"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return int64(len(text)), "the manifest ends in the middle"
	case !ok:
		return -1, tensorfs.OneLine(invalid + err.Error())
	}
	problem = invalid + strings.TrimPrefix(e.Err.Error(), "jsontext: ")
	if e.JSONPointer != "" {
		problem += " at " + tensorfs.Quote(string(e.JSONPointer))
	}
	return e.ByteOffset, tensorfs.OneLine(problem)
}
