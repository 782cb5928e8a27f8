package ollama

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/internal/source"
)

// Weights is a GGUF file of a model that is to be written.
type Weights struct {
	File   *gguf.File
	Digest string // sha256:HEX
	Size   int64
	From   string // for the manifest: the path of the blob, or the name of a model
	Kind   string // a kind of [Kept]; "" if it follows from the file
}

// Kept is a layer of an Ollama model that a model derived from it keeps. Kind is its media
// type after "application/vnd.ollama.image.".
type Kept struct {
	Kind string
	Text []byte
	From string
}

// Text is a blob without weights.
type Text struct {
	Digest string // sha256:HEX
	Bytes  []byte
}

// Created is a model as 'ollama create' writes it: blobs beside the weights, which the
// manifest refers to, and the manifest.
type Created struct {
	Texts    []Text
	Manifest []byte
	Chat     string // Ollama's name of the chat format; "" if the model has a template of its own, or a template that Ollama does not know
}

// written is a layer in a manifest, its fields in Ollama's order.
type written struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
	From      string `json:"from,omitempty"`
}

// image is the content of a config's blob, its fields in Ollama's order.
type image struct {
	Format       string   `json:"model_format"`
	Family       string   `json:"model_family"`
	Families     []string `json:"model_families"`
	Type         string   `json:"model_type"`
	FileType     string   `json:"file_type"`
	Renderer     string   `json:"renderer,omitempty"`
	Parser       string   `json:"parser,omitempty"`
	Requires     string   `json:"requires,omitempty"`
	Architecture string   `json:"architecture"` // always the architecture of Docker images of its servers
	OS           string   `json:"os"`
	RootFS       rootFS   `json:"rootfs"`
}

type rootFS struct {
	Type    string   `json:"type"`
	Digests []string `json:"diff_ids"`
}

// Media types of a manifest.
const (
	mediaManifest = "application/vnd.docker.distribution.manifest.v2+json"
	mediaConfig   = "application/vnd.docker.container.image.v1+json"
)

// Create returns the model of these weights, the language model first. It keeps the layers
// of another model. Without kept layers it adds the template and the stop words that Ollama
// knows for the chat template of the weights. was looks up keys in the other model's
// config; renderer, parser and requires are kept.
func Create(weights []Weights, kept []Kept, was func(key string) string) (*Created, error) {
	c := &creation{image: image{Architecture: "amd64", OS: "linux", RootFS: rootFS{Type: "layers"},
		Renderer: was("renderer"), Parser: was("parser"), Requires: was("requires")}}
	for i := range weights {
		c.addWeights(&weights[i], len(kept) == 0)
	}
	for _, k := range kept {
		if k.Kind == kindParams.String() {
			if err := c.addParams(k.Text); err != nil {
				return nil, err
			}
			continue
		}
		c.addText(k.Kind, k.Text, k.From)
	}
	if c.params != nil { // Ollama moves them to the end
		c.addText(kindParams.String(), c.params, "")
	}
	for _, l := range c.layers {
		c.image.RootFS.Digests = append(c.image.RootFS.Digests, l.Digest)
	}
	config := c.text(mediaConfig, line(c.image))
	c.out.Manifest = line(struct {
		Version   int       `json:"schemaVersion"`
		MediaType string    `json:"mediaType"`
		Config    written   `json:"config"`
		Layers    []written `json:"layers"`
	}{2, mediaManifest, config, c.layers})
	return &c.out, nil
}

// creation is a model that is being put together.
type creation struct {
	out    Created
	layers []written
	params []byte
	image  image
}

// line is a value as a line of JSON.
func line(v any) []byte {
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(v); err != nil {
		panic(err) // texts, numbers and lists of them
	}
	return b.Bytes()
}

// text adds a blob.
func (c *creation) text(media string, b []byte) written {
	sum := sha256.Sum256(b)
	d := digest(hex.EncodeToString(sum[:])).String()
	if !slices.ContainsFunc(c.out.Texts, func(t Text) bool { return t.Digest == d }) {
		c.out.Texts = append(c.out.Texts, Text{d, b})
	}
	return written{MediaType: media, Digest: d, Size: int64(len(b))}
}

func (c *creation) addText(kind string, b []byte, from string) {
	l := c.text(mediaPrefix+kind, b)
	l.From = from
	c.layers = append(c.layers, l)
}

// addWeights adds a GGUF file and what follows from it.
func (c *creation) addWeights(w *Weights, chats bool) {
	architecture := architectureOf(w.File)
	im := &c.image
	if len(c.layers) == 0 {
		im.Format, im.Family = "gguf", architecture
		im.Type, im.FileType = count(parameters(w.File)), fileType(w.File)
	}
	im.Families = append(im.Families, architecture)
	c.layers = append(c.layers, written{mediaPrefix + cmp.Or(w.Kind, weightsKind(w.File).String()), w.Digest, w.Size, w.From})
	template, _ := w.File.Value("tokenizer.chat_template").(string)
	if !chats || template == "" {
		return
	}
	if known := chatOf(template); known != nil {
		c.out.Chat = known.Name
		c.addText(kindTemplate.String(), []byte(known.Template), "")
		c.params = line(map[string]any{"stop": known.Stop})
	}
}

// addParams adds run options as Ollama writes them: its keys are sorted.
func (c *creation) addParams(text []byte) error {
	var params map[string]any
	if err := json.Unmarshal(text, &params); err != nil {
		return fmt.Errorf("the model's params are not a JSON object: %w", err)
	}
	if len(params) > 0 {
		c.params = line(params)
	}
	return nil
}

// architectureOf returns general.architecture as Ollama reads it.
func architectureOf(f *gguf.File) string {
	if s, ok := f.Value("general.architecture").(string); ok {
		return s
	}
	return "unknown"
}

// weightsKind is the role of a GGUF file in a model, by its own metadata.
func weightsKind(f *gguf.File) layerKind {
	architecture := architectureOf(f)
	blocks := func(key string) uint32 { n, _ := f.Value(architecture + "." + key).(uint32); return n }
	switch kind, _ := f.Value("general.type").(string); {
	case kind == "adapter":
		return kindAdapter
	case kind == "projector", blocks("block_count") == 0 && blocks("vision.block_count") > 0:
		return kindProjector
	}
	return kindModel
}

// parameters is how many numbers the tensors have.
func parameters(f *gguf.File) (n uint64) {
	for i := range f.Tensors {
		elements := uint64(1)
		for _, d := range f.Tensors[i].Shape {
			elements *= uint64(d)
		}
		n += elements
	}
	return n
}

// count is a number in three digits or so, as Ollama shows it.
func count(n uint64) string {
	for _, unit := range []struct {
		size   float64
		letter string
		digits int // after the point, unless it is a whole number
	}{{1e9, "B", 1}, {1e6, "M", 2}, {1e3, "K", 0}} {
		if x := float64(n) / unit.size; x >= 1 {
			if x == math.Floor(x) {
				unit.digits = 0
			}
			return strconv.FormatFloat(x, 'f', unit.digits, 64) + unit.letter
		}
	}
	return strconv.FormatUint(n, 10)
}

// fileTypes are the numbers of general.file_type that Ollama has a name for.
var fileTypes = sync.OnceValue(func() map[uint32]string {
	types := map[uint32]string{4: "MXFP4", 21: "Q2_K_S", 32: "BF16"}
	for first, names := range map[uint32]string{1: "F16 Q4_0 Q4_1", 7: "Q8_0 Q5_0 Q5_1 Q2_K Q3_K_S Q3_K_M Q3_K_L Q4_K_S Q4_K_M Q5_K_S Q5_K_M Q6_K"} {
		for i, name := range strings.Fields(names) {
			types[first+uint32(i)] = name
		}
	}
	return types
})

// fileType is general.file_type in Ollama's words, in which F32 is unknown, too.
func fileType(f *gguf.File) string {
	number, _ := f.Value("general.file_type").(uint32)
	if name, ok := fileTypes()[number]; ok {
		return name
	}
	return "unknown"
}

// BlobName returns where a store has the blob of a digest: blobs/sha256-HEX.
func BlobName(digest string) (string, error) {
	d, err := parseDigest(digest)
	return d.name(), err
}

// KeptLayers returns the layers of an Ollama model that are neither weights nor files of
// another format, and a function that looks up keys of its config. name is the model's
// name, which layers of a derived model record as their origin.
func KeptLayers(m *tensorfs.Model, name string) (kept []Kept, was func(key string) string, err error) {
	config := map[string]string{}
	for _, meta := range m.Metadata {
		if key, ok := strings.CutPrefix(meta.Key, "ollama.config."); ok {
			config[key], _ = meta.Value.(string)
		}
	}
	was = func(key string) string { return config[key] }
	if m.Format != "ollama" {
		return nil, was, nil
	}
	order := strings.Fields("template system license messages params") // in which Ollama adds them
	for _, s := range m.Sources {
		kind, _, _ := strings.Cut(s.Name, ".") // license.1 is a second one
		if !slices.Contains(order, kind) {
			continue
		}
		d, err := m.File(s.Name)
		if err != nil {
			return nil, nil, err
		}
		text, err := source.ReadAll(d, s.Path, maxText)
		if err != nil {
			return nil, nil, err
		}
		kept = append(kept, Kept{Kind: kind, Text: text, From: name})
	}
	slices.SortStableFunc(kept, func(a, b Kept) int { return slices.Index(order, a.Kind) - slices.Index(order, b.Kind) })
	return kept, was, nil
}

// Projector is the name of the first vision tower below source/.
const Projector = "projector.gguf"

// OtherWeight is a GGUF file of an Ollama model that is neither its language model nor
// [Projector], by its name below source/.
type OtherWeight struct{ Name, Kind string }

// OtherWeights returns a model's further weights: projectors, adapters, and a draft model.
func OtherWeights(m *tensorfs.Model) (list []OtherWeight) {
	for _, s := range m.Sources {
		kind, _, _ := strings.Cut(s.Name, ".")
		if strings.HasSuffix(s.Name, ".gguf") && kind != kindModel.String() && s.Name != Projector {
			list = append(list, OtherWeight{s.Name, kind})
		}
	}
	return list
}
