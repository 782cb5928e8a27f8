package merged

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/recipe"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
	"github.com/tensorfs/tensorfs/internal/source"
)

// config is the config.json of a model.
type config struct {
	object jsonobj.Object
	layers int
}

const (
	configName  = "config.json"
	weightsName = "model.safetensors"
	recipeName  = "mergekit_config.yml" // as mergekit calls the one that it writes beside a merge
	maxConfig   = 16 << 20
	maxLayers   = 1 << 16
)

// layersKeys are how configs call the number of layers.
var layersKeys = []string{"num_hidden_layers", "n_layer", "num_layers"}

// configOf reads it. Models with towers, whose layers are in an object of their own, are not
// merged.
func configOf(m *tensorfs.Model) (c config, err error) {
	d, err := m.File(configName)
	if err != nil {
		return c, fmt.Errorf("it has no config.json")
	}
	text, err := source.ReadAll(d, configName, maxConfig)
	if err != nil {
		return c, err
	}
	if c.object, err = jsonobj.Parse(text); err != nil {
		return c, fmt.Errorf("config.json: %w", err)
	}
	for _, key := range layersKeys {
		if n, ok := c.object.Raw(key).Int(); ok && n > 0 && n <= maxLayers {
			c.layers = n
			return c, nil
		}
	}
	return c, fmt.Errorf("config.json has no %s at its top level, where models that read only text have it", layersKeys[0])
}

// field is a field of config.json and its value.
type field struct{ key, value string }

// tiedKey declares one tensor for both the embedding and the head, rowsKey how many rows it
// has.
const (
	tiedKey = "tie_word_embeddings"
	rowsKey = "vocab_size"
)

// with returns the text for other layers, and another type of numbers. layers belong to the
// models that have configs. A list with an item for each layer gets the items of the
// layers. set are fields that replace its own.
func (c config) with(layers []recipe.Layer, configs []config, torch string, set []field) ([]byte, error) {
	out := []byte("{")
	add := func(key string, value []byte) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(tensorfs.AppendJSONString(append(out, "\n  "...), key), ": "...)
		out = append(out, value...)
	}
	typed := false
	for key, raw := range c.object.All() {
		value := []byte(raw.String())
		switch {
		case slices.ContainsFunc(set, func(f field) bool { return f.key == key }):
			continue
		case slices.Contains(layersKeys, key):
			value = strconv.AppendInt(nil, int64(len(layers)), 10)
		case key == "torch_dtype" || key == "dtype":
			if typed {
				continue
			}
			key, value, typed = "torch_dtype", tensorfs.AppendJSONString(nil, torch), true
		case raw.Kind() == '[' && count(raw) == c.layers && !c.same(layers):
			var err error
			if value, err = items(key, layers, configs); err != nil {
				return nil, err
			}
		}
		add(key, value)
		if len(out) > maxConfig {
			return nil, fmt.Errorf("config.json would have more than %d bytes: lists with an item for each layer have very long items", maxConfig)
		}
	}
	for _, f := range set {
		add(f.key, []byte(f.value))
	}
	if !typed {
		add("torch_dtype", tensorfs.AppendJSONString(nil, torch))
	}
	return append(out, "\n}\n"...), nil
}

// count is how many items a list has.
func count(list jsonobj.Raw) (n int) {
	for range list.Elements() {
		n++
	}
	return n
}

// items are the items of a list in the configs that belong to the layers.
func items(key string, layers []recipe.Layer, configs []config) ([]byte, error) {
	lists := map[int][]jsonobj.Raw{}
	out := []byte("[")
	for i, l := range layers {
		if lists[l.Model] == nil {
			lists[l.Model] = slices.Collect(configs[l.Model].object.Raw(key).Elements())
		}
		if l.Number >= len(lists[l.Model]) {
			return nil, fmt.Errorf("config.json: %s has no item for layer %d", tensorfs.Quote(key), l.Number)
		}
		if i > 0 {
			out = append(out, ", "...)
		}
		if out = append(out, lists[l.Model][l.Number].String()...); len(out) > maxConfig {
			break // the caller refuses it
		}
	}
	return append(out, ']'), nil
}

// same reports whether these are all layers in their order.
func (c config) same(layers []recipe.Layer) bool {
	for i, l := range layers {
		if l.Number != i {
			return false
		}
	}
	return len(layers) == c.layers
}
