package settings

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/tensorfs/tensorfs"
)

// seeing is a projector that gives a layer of the language model what a layer of the tower sees.
type seeing struct {
	tower, language int64 // the layers
	spatial         int64 // which of the parts of a picture it takes, -1 for all
}

// maxSeeing bounds the projectors of a tower.
const maxSeeing = 512

// pairs returns a list of pairs of whole numbers that config.json has, nil without one.
func (c call) pairs(field string) (list [][2]int64) {
	v := c.cfg.Value("model."+field, field)
	a, ok := v.(tensorfs.Array)
	if v == nil {
		return nil
	}
	if !ok || a.Len() > maxSeeing {
		c.refuse("%s is not a list of at most %d pairs", field, maxSeeing)
		return nil
	}
	for e := range a.Values() {
		text, _ := e.(tensorfs.JSON)
		var pair []int32
		if json.Unmarshal([]byte(text), &pair) != nil || len(pair) != 2 {
			c.refuse("%s has the element %s, which is not a pair of whole numbers", field, Shown(e))
			return nil
		}
		list = append(list, [2]int64{int64(pair[0]), int64(pair[1])})
	}
	return list
}

// projectorsByLayer returns a fact of each projector, in the order of the layers of the language model: seen, the layer of the tower;
// spatial, the part of a picture or -1; or layers, for each layer of the language model the number of its projector or -1. The
// first projector makes what the language model begins with, and has no layer.
func projectorsByLayer(c call) any {
	layers, ok := c.cfg.Integer("model.text_config.num_hidden_layers")
	if !ok { // the fields are of the language model, not of the tower
		layers, _ = c.cfg.Integer("num_hidden_layers")
	}
	depth, _ := c.cfg.Integer("model.vision_config.num_hidden_layers", "vision_config.num_hidden_layers")
	spatial, ok := c.cfg.Integer("model.spatial_vision_layer", "spatial_vision_layer")
	if !ok {
		spatial = -1
	}
	var all []seeing
	for i, pair := range c.pairs("deepstack_layer_map") {
		if i > 0 && all[i-1].tower >= pair[0] {
			c.refuse("deepstack_layer_map does not have the layers of the tower in their order, which llama.cpp's converter gives them")
			return nil
		}
		all = append(all, seeing{pair[0], pair[1], -1})
	}
	for i, layer := range c.cfg.Numbers("model.spatial_target_layers", "spatial_target_layers") {
		all = append(all, seeing{spatial, int64(layer), int64(i)})
	}
	if len(all) == 0 || len(all) > maxSeeing || layers < 1 || layers > maxList {
		c.refuse("it has %d projectors for %d layers", len(all), layers)
		return nil
	}
	for i := range all {
		x := &all[i]
		if x.tower >= 0 { // the class counts from the embedding then
			c.refuse("it counts layers of the tower from the first, and llama.cpp's converter then takes other layers than the class")
			return nil
		}
		x.tower += depth
		if x.language < 0 {
			x.language += layers
		}
		if x.tower < 0 || x.tower >= depth || x.language < 0 || x.language >= layers {
			c.refuse("a projector is between layers that its tower, of %d, or its language model, of %d, does not have", depth, layers)
			return nil
		}
	}
	slices.SortStableFunc(all, func(a, b seeing) int { return cmp.Compare(a.language, b.language) })
	var seen, offsets []any
	of := slices.Repeat([]any{int64(-1)}, int(layers))
	for i, x := range all {
		if i > 0 && all[i-1].language == x.language {
			c.refuse("the layer %d of the language model has two projectors", x.language)
			return nil
		}
		seen, offsets = append(seen, x.tower), append(offsets, x.spatial)
		if i > 0 {
			of[x.language] = int64(i)
		}
	}
	switch c.arg(0) {
	case "seen":
		return seen
	case "spatial":
		return offsets
	}
	return of
}

// layersOfProjectors is the other way, of the layers of the language model in its own file: seen is deepstack_layer_map, layers are
// spatial_target_layers, and spatial is spatial_vision_layer. Layers of the tower are counted from the last.
func layersOfProjectors(c call) any {
	seen, _ := c.raw("feature_layers").([]any)
	offsets, _ := c.raw("spatial_offsets").([]any)
	mapping, _ := c.known["text_projectors"].([]any)
	if len(seen) == 0 || len(seen) != len(offsets) || len(mapping) == 0 {
		c.refuse("the files do not have the layers of each projector")
		return nil
	}
	var deep, spatial []seeing
	from := int64(-1)
	for i := range seen {
		layer, _ := seen[i].(int64)
		offset, _ := offsets[i].(int64)
		x := seeing{layer - c.count("n_layers"), int64(slices.Index(mapping, any(int64(i)))), offset}
		if i == 0 { // what the language model begins with
			x.language = 0
		}
		switch {
		case x.language < 0 || x.tower >= 0:
			c.refuse("the projector %d has no layer", i)
			return nil
		case offset < 0:
			deep = append(deep, x)
		default:
			spatial, from = append(spatial, x), x.tower
		}
	}
	slices.SortStableFunc(deep, func(a, b seeing) int { return cmp.Compare(a.tower, b.tower) })
	slices.SortStableFunc(spatial, func(a, b seeing) int { return cmp.Compare(a.spatial, b.spatial) })
	list := []any{}
	switch c.arg(0) {
	case "seen":
		for _, x := range deep {
			list = append(list, []any{x.tower, x.language})
		}
		return list
	case "layers":
		for i, x := range spatial {
			if x.spatial != int64(i) || x.tower != from {
				c.refuse("its projectors of parts of a picture do not have the parts 0 to %d of one layer", len(spatial)-1)
				return nil
			}
			list = append(list, x.language)
		}
		return list
	}
	return from
}
