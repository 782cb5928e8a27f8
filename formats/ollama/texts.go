package ollama

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// maxText bounds the layers that are read into memory.
const maxText = 16 << 20

// imageConfig reads the manifest's config: what Ollama lists of a model without
// opening its weights. It is a hint only, so the model opens without it, too.
func (b *builder) imageConfig() jsonobj.Object {
	l := b.manifest.config
	if l == nil {
		return jsonobj.Object{}
	}
	text, err := b.blobs.read(l, maxText)
	var o jsonobj.Object
	if err == nil {
		o, err = jsonobj.Parse(text)
	}
	if err != nil {
		b.warn("metadata lacks ollama.config: %v", err)
		return jsonobj.Object{}
	}
	b.source(labelConfig, l)
	return o
}

// readConfigs reads the config.json of the model and of its components, and
// lists the other json layers.
func (b *builder) readConfigs() error {
	b.configs = make(map[string]*modelConfig)
	layers := make(map[string]*layer)
	for i := range b.manifest.layers {
		l := &b.manifest.layers[i]
		if l.kind != kindJSON {
			continue
		}
		if b.labels[i] == "" {
			b.warn("the %s is left out: it is not called .json", l)
			continue
		}
		if other := layers[l.name]; other != nil {
			return b.damaged(l, "another layer has that name: %s", other.digest)
		}
		layers[l.name] = l
		part, isConfig := strings.CutSuffix(l.name, "config.json")
		if isConfig && (part == "" || strings.IndexByte(part, '/') == len(part)-1) {
			if err := b.readConfig(l, strings.TrimSuffix(part, "/")); err != nil {
				return err
			}
		} else if err := b.blobs.check(l); err != nil {
			return err
		}
		b.source(b.labels[i], l)
	}
	return nil
}

func (b *builder) readConfig(l *layer, component string) error {
	text, err := b.blobs.read(l, maxText)
	if err != nil {
		return err
	}
	root, err := jsonobj.Parse(text)
	if err != nil {
		return b.damaged(l, "%v", err)
	}
	b.configs[component] = newConfig(root)
	if component == "" {
		b.out.Metadata = root.Meta(b.out.Metadata, "config.")
	}
	return nil
}

// readTexts reads the layers of text into the metadata. JSON stays JSON.
func (b *builder) readTexts() error {
	for i := range b.manifest.layers {
		l := &b.manifest.layers[i]
		row := l.kind.row()
		if !row.text || b.labels[i] == "" {
			continue
		}
		text, err := b.blobs.read(l, maxText)
		if err != nil {
			return err
		}
		var value any = string(text)
		if row.json {
			v := jsontext.Value(text)
			if err := v.Compact(jsontext.AllowDuplicateNames(true)); err != nil {
				return b.damaged(l, "it is not JSON")
			}
			value = tensorfs.JSON(v)
		}
		b.out.Metadata = append(b.out.Metadata, tensorfs.Meta{Key: "ollama." + b.labels[i], Value: value})
		b.source(b.labels[i], l)
	}
	return nil
}
