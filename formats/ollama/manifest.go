package ollama

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tensorfs/tensorfs"
)

// A manifest as Ollama writes it, and what is read of it:
//
//	{"schemaVersion":2, "mediaType":"...",                  not looked at, nor are unknown fields
//	 "config":{"digest":"sha256:..","size":485},            may be missing
//	 "layers":[{"mediaType":"application/vnd.ollama.image.tensor",
//	            "digest":"sha256:..", "size":123, "name":".."}, ...]}
type manifest struct {
	config *layer
	layers []layer // those of a known kind; identical tensors and the like once
}

// layer is a blob and what it is to the model.
type layer struct {
	kind   kind
	digest digest
	size   int64
	name   string // kindTensor and kindJSON only
}

// kind is what a layer holds.
type kind uint8

const (
	kindUnknown kind = iota
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

const mediaPrefix = "application/vnd.ollama.image."

// kinds has the layers' media types without mediaPrefix. Layers of other types,
// such as the obsolete embed, are not opened.
var kinds = map[string]kind{
	"model":     kindModel,
	"tensor":    kindTensor,
	"json":      kindJSON,
	"projector": kindProjector,
	"adapter":   kindAdapter,
	"draft":     kindDraft,
	"template":  kindTemplate,
	"prompt":    kindTemplate, // its name in old manifests
	"system":    kindSystem,
	"params":    kindParams,
	"messages":  kindMessages,
	"license":   kindLicense,
}

// kindNames are the kinds' names in messages.
var kindNames = [...]string{kindUnknown: "unknown", kindConfig: "config", kindModel: "model", kindTensor: "tensor", kindJSON: "json",
	kindProjector: "projector", kindAdapter: "adapter", kindDraft: "draft", kindTemplate: "template", kindSystem: "system",
	kindParams: "params", kindMessages: "messages", kindLicense: "license"}

func (k kind) String() string { return kindNames[k] }

// parseManifest parses the text of a manifest: one JSON object and nothing
// behind it, no key twice in an object. path is for messages.
func parseManifest(path string, text []byte) (*manifest, error) {
	p := &manifestParser{path: path, dec: jsontext.NewDecoder(bytes.NewReader(text)), seen: make(map[layer]struct{})}
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return nil, p.fail("the manifest is empty")
	case bytes.HasPrefix(text, []byte("\xef\xbb\xbf")):
		return nil, p.fail("the manifest starts with a byte order mark, which JSON does not allow")
	}
	if err := p.object("the manifest", p.field); err != nil {
		return nil, err
	}
	if _, err := p.dec.ReadToken(); err == nil {
		return nil, p.fail("something follows the manifest's JSON object")
	} else if err != io.EOF {
		return nil, p.syntax(err)
	}
	switch {
	case p.list && p.out.layers == nil:
		return nil, p.fail("it is a list of manifests, not a manifest")
	case !p.layers:
		return nil, p.fail("the manifest has no layers")
	}
	return &p.out, nil
}

type manifestParser struct {
	path         string
	dec          *jsontext.Decoder
	out          manifest
	seen         map[layer]struct{}
	layers, list bool // whether those fields occurred
	n            int  // number of the layer that is being read
}

func (p *manifestParser) field(key string) error {
	switch key {
	case "layers":
		p.layers = true
		if p.dec.PeekKind() == 'n' { // what Ollama writes for none
			return p.skip()
		}
		return p.array("layers", p.layer)
	case "config":
		if p.dec.PeekKind() == 'n' {
			return p.skip()
		}
		return p.config()
	case "manifests":
		p.list = true
	}
	return p.skip()
}

// fields are those of a layer, as they stand.
type fields struct {
	media, digest, name string
	size                int64
	hasSize             bool
}

func (p *manifestParser) fields(what string) (f fields, err error) {
	err = p.object(what, func(key string) (err error) {
		switch key {
		case "mediaType":
			f.media, err = p.text(what + "'s mediaType")
		case "digest":
			f.digest, err = p.text(what + "'s digest")
		case "name":
			f.name, err = p.text(what + "'s name")
		case "size":
			f.hasSize = true
			f.size, err = p.size(what)
		default:
			err = p.skip()
		}
		return err
	})
	return f, err
}

func (p *manifestParser) config() error {
	f, err := p.fields("the config")
	if err != nil || f.digest == "" { // an empty digest means that there is none
		return err
	}
	l, err := p.check("the config", f)
	if err != nil {
		return err
	}
	l.kind = kindConfig
	p.out.config = &l
	return nil
}

func (p *manifestParser) layer() error {
	p.n++
	what := "layer " + strconv.Itoa(p.n)
	f, err := p.fields(what)
	if err != nil {
		return err
	}
	suffix, ok := strings.CutPrefix(f.media, mediaPrefix)
	kind := kinds[suffix]
	if !ok || kind == kindUnknown {
		return nil
	}
	what += " (" + suffix
	if f.name != "" {
		what += " " + tensorfs.Quote(f.name)
	}
	l, err := p.check(what+")", f)
	if err != nil {
		return err
	}
	l.kind = kind
	if kind == kindTensor || kind == kindJSON {
		if problem := nameProblem(f.name); problem != "" {
			return p.fail("%s): its name %s", what, problem)
		}
		l.name = f.name
	}
	if _, single := lastOne[kind]; !single { // of those the order counts
		if _, dup := p.seen[l]; dup {
			return nil
		}
		p.seen[l] = struct{}{}
	}
	p.out.layers = append(p.out.layers, l)
	return nil
}

func (p *manifestParser) check(what string, f fields) (layer, error) {
	d, err := parseDigest(f.digest)
	switch {
	case err != nil:
		return layer{}, p.fail("%s: %v", what, err)
	case !f.hasSize:
		return layer{}, p.fail("%s, %s: it has no size", what, d)
	case f.size < 0:
		return layer{}, p.fail("%s, %s: its size is %d", what, d, f.size)
	}
	return layer{digest: d, size: f.size}, nil
}

// object reads an object and calls field at every value.
func (p *manifestParser) object(what string, field func(key string) error) error {
	if err := p.begin('{', what, "an object"); err != nil {
		return err
	}
	for p.dec.PeekKind() != '}' {
		t, err := p.dec.ReadToken()
		if err != nil {
			return p.syntax(err)
		}
		if err := field(t.String()); err != nil {
			return err
		}
	}
	_, err := p.dec.ReadToken()
	return p.syntax(err)
}

// array reads an array and calls elem at every value.
func (p *manifestParser) array(what string, elem func() error) error {
	if err := p.begin('[', what, "an array"); err != nil {
		return err
	}
	for p.dec.PeekKind() != ']' {
		if err := elem(); err != nil {
			return err
		}
	}
	_, err := p.dec.ReadToken()
	return p.syntax(err)
}

func (p *manifestParser) begin(kind jsontext.Kind, what, wants string) error {
	t, err := p.dec.ReadToken()
	if err != nil {
		return p.syntax(err)
	}
	if t.Kind() != kind {
		return p.fail("%s is not %s", what, wants)
	}
	return nil
}

// text reads a string; null is an empty one, as for Ollama.
func (p *manifestParser) text(what string) (string, error) {
	t, err := p.dec.ReadToken()
	switch {
	case err != nil:
		return "", p.syntax(err)
	case t.Kind() == 'n':
		return "", nil
	case t.Kind() != '"':
		return "", p.fail("%s is not text", what)
	}
	return t.String(), nil
}

// size reads an integer. JSON's floats are none, whatever their value.
func (p *manifestParser) size(what string) (int64, error) {
	v, err := p.dec.ReadValue()
	if err != nil {
		return 0, p.syntax(err)
	}
	n, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil {
		return 0, p.fail("%s's size %s is not an integer of 64 bits", what, tensorfs.Quote(string(v)))
	}
	return n, nil
}

func (p *manifestParser) skip() error { return p.syntax(p.dec.SkipValue()) }

func (p *manifestParser) fail(format string, args ...any) error {
	return p.failAt(p.dec.InputOffset(), fmt.Sprintf(format, args...))
}

func (p *manifestParser) failAt(offset int64, problem string) error {
	return &tensorfs.FormatError{File: p.path, Offset: offset, Problem: problem, Advice: "fetch the model again with 'ollama pull'"}
}

// syntax words an error of the JSON decoder; nil stays nil.
func (p *manifestParser) syntax(err error) error {
	var se *jsontext.SyntacticError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return p.fail("the manifest ends in the middle")
	case errors.As(err, &se):
		problem := "the manifest is not valid JSON: " + strings.ReplaceAll(se.Err.Error(), "\n", " ")
		if se.JSONPointer != "" {
			problem += " at " + tensorfs.Quote(string(se.JSONPointer))
		}
		return p.failAt(se.ByteOffset, problem)
	}
	return p.fail("the manifest is not valid JSON: %v", err)
}
