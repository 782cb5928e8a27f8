package settings

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/internal/convert/layout"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// Projector is a tower's part of the file of towers: its keys, config.json's and the rest.
type Projector struct {
	*architectures.Projector
	model *Model
	top   Fields // config.json
	meta  []tensorfs.Meta
	class string               // of a directory with it, and its model_type
	parts []architectures.Part // of the file
}

// ToProjector makes the keys of a tower that a config.json describes. The error is why
// there is no file of it.
func ToProjector(m *tensorfs.Model, cfg Fields, part architectures.Part) (*Projector, error) {
	x := &Projector{model: newModel(m, architectures.ToGGUF), top: cfg}
	top := Fields{top: cfg.top, problem: new(error), file: cfg.file}
	class := architectures.Class{ModelType: top.Word("model_type")}
	if names := top.Words("architectures"); len(names) > 0 {
		class.Name = names[0]
	}
	if err := top.Err(); err != nil {
		return nil, err
	}
	if x.Projector = architectures.ProjectorOf(class, part); x.Projector == nil {
		return nil, fmt.Errorf("no %sprojector of the class %s is known%s", soundOf(part), Shown(cmp.Or(class.Name, class.ModelType)), reasonOf(class, part))
	}
	s := x.model
	s.arch = x.Settings
	s.given.Tensor = layout.TensorsOf(m).Find
	var err error
	if s.cfg, err = towerFields(m, cfg, x.Projector); err != nil {
		return nil, err
	}
	s.cfg.asked = map[string]bool{}
	for i := range s.arch.Only {
		s.only(&s.arch.Only[i])
	}
	for i := range s.arch.Keys {
		item := &s.arch.Keys[i]
		if v := s.make(item); v != nil && s.err() == nil {
			x.meta = append(x.meta, tensorfs.Meta{Key: s.fullKey(item.Fact), Value: v})
		}
	}
	for _, need := range s.arch.Words("needs") {
		if !s.has(need) && s.err() == nil {
			s.lacks(need)
		}
	}
	s.agree("check")
	s.checkUnknownTower(cfg.top, part)
	return x, s.err()
}

// reasonOf returns why no tower of a class is made, after a colon, "" if that is not known.
func reasonOf(class architectures.Class, part architectures.Part) string {
	at := slices.IndexFunc(architectures.Support(), func(c architectures.Supported) bool { return c.Class == class.Name })
	if at < 0 {
		return ""
	}
	if why := architectures.Support()[at].Columns[string(part)].Reason; why != "" {
		return ": " + why
	}
	return ""
}

// soundOf is what messages put before the projector of a part: vision is what they mean
// without a word.
func soundOf(part architectures.Part) string {
	if part == architectures.Audio {
		return "audio "
	}
	return ""
}

// Notes returns what a user should know of the keys that were made.
func (x *Projector) Notes() []string { return x.model.notes }

// Fact returns a fact of the tower by the name of keys.txt, and config.NAME, a whole
// number of vision_config.
func (x *Projector) Fact(name string) any {
	if field, ok := strings.CutPrefix(name, "config."); ok {
		if n, ok := x.model.cfg.Integer(field); ok && x.model.to == architectures.ToGGUF {
			return n
		}
		return nil
	}
	return x.model.raw(name)
}

// ProjectorKeys returns the metadata of a file with towers, general.architecture first.
func ProjectorKeys(towers []*Projector, fileType uint32) []tensorfs.Meta {
	const arch = "clip"
	meta := []tensorfs.Meta{{Key: "general.architecture", Value: arch}, {Key: "general.type", Value: "mmproj"}}
	if name := modelName(towers[0].model.m, towers[0].top, arch); name != "" {
		meta = append(meta, tensorfs.Meta{Key: "general.name", Value: name})
	}
	meta = append(meta,
		tensorfs.Meta{Key: "general.quantization_version", Value: uint32(2)},
		tensorfs.Meta{Key: "general.file_type", Value: fileType})
	for _, x := range towers {
		for _, own := range x.meta {
			if !slices.ContainsFunc(meta, func(k tensorfs.Meta) bool { return k.Key == own.Key }) { // both may name the projector
				meta = append(meta, own)
			}
		}
	}
	return meta
}

// towerFields are the fields of vision_config, or of what another tower's fields are within,
// as if they were a file's, beside them the whole config.json as model,
// preprocessor_config.json as preprocessor and processor_config.json as processor.
func towerFields(m *tensorfs.Model, cfg Fields, p *architectures.Projector) (Fields, error) {
	within, own := cfg.top.Inner(p.Within)
	s := Fields{problem: new(error), file: "config.json, " + within}
	if within == "" {
		return s, fmt.Errorf("config.json: it has no %s", strings.Join(p.Within, " or "))
	}
	text := fmt.Appendf(nil, `{"model":%s`, Members(cfg.top).Lines(false))
	for name, file := range map[string]string{"preprocessor": "preprocessor_config.json", "processor": "processor_config.json"} {
		content, err := ReadText(m, file, MaxText)
		if err != nil {
			return s, err
		}
		if content == nil {
			content = []byte("{}")
		}
		if _, err := ParseFields(file, content); err != nil {
			return s, err
		}
		text = append(fmt.Appendf(text, ",%q:", name), content...)
	}
	var err error
	s.top, err = jsonobj.Parse(append(text, '}'))
	s.text = own
	return s, err
}

// processed are the places of a field of the preprocessor, in order of priority.
func processed(field string) []string {
	return []string{"processor.image_processor." + field, "processor." + field, "preprocessor.media_proc_cfg." + field, "preprocessor." + field}
}

// towerMeanings are about vision towers.
var towerMeanings = map[string]meaning{
	// A list of one number for each colour: of the preprocessor's, or the three that follow.
	"colours": {toGGUF: colours},
	// How many patches of each direction become one token in gemma3, unless it is 4.
	"picture_scale": {toGGUF: pictureScale},
	// The size of a picture that has as many patches as there are positions.
	"grid_size": {toGGUF: func(c call) any {
		n, ok := c.cfg.Integer("num_position_embeddings")
		if !ok {
			n = 2304
		}
		if n < 1 || n > architectures.FactOf("dim").Most {
			c.refuse("num_position_embeddings is %d", n)
			return nil
		}
		return int64(math.Sqrt(float64(n)) * float64(c.count("patch_size")))
	}},
	"full_attention_every": {toGGUF: fullAttentionEvery, fromGGUF: func(c call) any {
		list, every := []any{}, c.count("window_pattern")
		for at := every - 1; every > 0 && at < c.count("n_layers"); at += every {
			list = append(list, at)
		}
		return list
	}},
	// For each layer whether its result goes to the language model.
	"deepstack": {fromGGUF: deepstackIndexes, toGGUF: func(c call) any {
		layers := make([]any, min(c.count("n_layers"), maxList))
		for i := range layers {
			layers[i] = false
		}
		last := -1.0
		for _, at := range c.cfg.Numbers("deepstack_visual_indexes") {
			if at != math.Trunc(at) || at <= last || at >= float64(len(layers)) {
				c.refuse("deepstack_visual_indexes has %v, which is not a later layer than the number before it", at)
				return nil
			}
			layers[int(at)], last = true, at
		}
		return layers
	}},
	// A whole number of the preprocessor's file.
	"processor": {toGGUF: func(c call) any {
		if n, ok := c.cfg.Integer(processed(c.args[0].Name)...); ok {
			return n
		}
		return nil
	}},
	// A list of one number.
	"list": {toGGUF: func(c call) any {
		n, ok := c.arg(0).(int64)
		if !ok {
			return nil
		}
		return []any{n}
	}},
	// A list of a number twice.
	"twice": {fromGGUF: func(c call) any { return []any{c.number(0), c.number(0)} }},
	// The side of a square of so many, or towards GGUF of at most so many.
	"side": {toGGUF: func(c call) any {
		if n := c.number(0); n > 0 {
			return int64(math.Sqrt(float64(n)))
		}
		return nil
	}, fromGGUF: func(c call) any {
		n := c.number(0)
		side := int64(math.Sqrt(float64(n)))
		if n < 1 || side*side != n {
			c.refuse("%s has %d rows of patches, which are no square", c.full("projector_type"), n)
			return nil
		}
		return side
	}},
	// How the numbers of a head of the language model are shared between time, height and width.
	"language": {fromGGUF: func(c call) any { return c.known["language"] }}, // GGUF's name of its architecture
	// Whether the file has an audio tower, too.
	"hears": {fromGGUF: func(c call) any { return c.known["hears"] }},
	// The model_type of the class with the tower.
	"class_type": {fromGGUF: func(c call) any { return c.known["class_type"] }},
	// The width of the language model, by its embedding.
	"text_width": {toGGUF: func(c call) any {
		if shape := c.Shape(layout.Embedding + ".weight"); len(shape) == 2 {
			return shape[1]
		}
		return nil
	}},
	// A number of a text like "4/8": the first or the second.
	"part_of_rate": {toGGUF: func(c call) any {
		text, _ := c.arg(0).(string)
		part, second, _ := strings.Cut(text, "/")
		if c.number(1) == 1 {
			part = second
		}
		if n, err := strconv.ParseInt(part, 10, 32); err == nil && n > 0 {
			return n
		}
		c.refuse("%s has to be two numbers with a slash", strings.TrimPrefix(c.args[0].Name, "config.model."))
		return nil
	}},
	"rate":       {fromGGUF: func(c call) any { return fmt.Sprintf("%d/%d", c.number(0), c.number(1)) }},
	"projectors": {toGGUF: projectorsByLayer, fromGGUF: layersOfProjectors},
	// Sizes of pictures, the width of each before its height.
	"pinpoints": {toGGUF: func(c call) any {
		var list []any
		for _, pair := range c.pairs("image_grid_pinpoints") {
			list = append(list, pair[1], pair[0])
		}
		if list == nil {
			return nil
		}
		return list
	}, fromGGUF: func(c call) any {
		list, _ := c.raw("grid_pinpoints").([]any)
		var pairs []any
		for i := 1; i < len(list); i += 2 {
			pairs = append(pairs, []any{list[i], list[i-1]})
		}
		if pairs == nil || len(list)%2 != 0 {
			return nil
		}
		return pairs
	}},
	// One divided by so many.
	"share": {fromGGUF: func(c call) any {
		if n := c.number(0); n > 0 {
			return 1 / float64(n)
		}
		return nil
	}},
	// How many positions of each direction gemma4v has.
	"positions": {fromGGUF: func(c call) any {
		t := c.tensor("position_embedding.weight")
		if t == nil || len(t.Numbers()) != 3 {
			return nil
		}
		return t.Numbers()[1]
	}},
	// The channels of the two convolutions before gemma4a's layers.
	"stem_channels": {fromGGUF: func(c call) any {
		first, second := c.Shape("a.stem.0.weight"), c.Shape("a.stem.1.weight")
		if len(first) == 0 || len(second) == 0 {
			return nil
		}
		return []any{first[0], second[0]}
	}},
	// Whether the inputs of layers are clipped.
	"clipped":       {fromGGUF: func(c call) any { return c.given.Tensor(layerPrefix(0)+"attention.q.input_max") != nil }},
	"text_sections": {fromGGUF: func(c call) any { return c.known["text_sections"] }},
	"square":        {toGGUF: square, fromGGUF: square},
	// How often a share goes into one.
	"inverse": {toGGUF: func(c call) any {
		x, ok := c.arg(0).(float64)
		if n := int64(math.Round(1 / x)); ok && x > 0 && n > 0 && 1/float64(n) == x {
			return n
		}
		if n, ok := c.arg(0).(int64); ok && n == 1 {
			return n
		}
		c.refuse("%s has to be one divided by a whole number", strings.TrimPrefix(strings.TrimPrefix(c.args[0].Name, "config."), "model."))
		return nil
	}},
}

// deepstackIndexes returns the layers whose results go to the language model.
func deepstackIndexes(c call) any {
	list := []any{}
	all, _ := c.raw("deepstack_layers").([]any)
	for i, deep := range all {
		if deep == true {
			list = append(list, int64(i))
		}
	}
	return list
}

func square(c call) any { return c.number(0) * c.number(0) }

func colours(c call) any {
	field := c.args[0].Name
	list := c.cfg.Numbers(processed(field)...)
	switch {
	case c.err() != nil:
		return nil
	case list == nil && len(c.args) == 4:
		return []any{c.arg(1), c.arg(2), c.arg(3)}
	case list == nil:
		c.fail(fmt.Errorf("preprocessor_config.json has no %s, which llama.cpp needs", field))
		return nil
	case len(list) != 3:
		c.fail(fmt.Errorf("preprocessor_config.json: %s has %d numbers, and a picture has 3 colours", field, len(list)))
		return nil
	}
	made := make([]any, len(list))
	for i, x := range list {
		made[i] = x
	}
	return made
}

func pictureScale(c call) any {
	tokens, ok := c.cfg.Integer(processed("image_seq_length")...)
	said, saidOK := c.cfg.Integer("model.mm_tokens_per_image")
	switch {
	case !ok && !saidOK:
		tokens = 256
	case !ok:
		tokens = said
	case saidOK && said != tokens:
		c.refuse("mm_tokens_per_image is %d, and the preprocessor has %d tokens for a picture", said, tokens)
	}
	side := int64(math.Sqrt(float64(tokens)))
	if patch := c.count("patch_size"); patch > 0 && side > 0 {
		if n := c.count("image_size") / patch / side; n > 0 && n != 4 {
			return n
		}
	}
	return nil
}

// fullAttentionEvery returns after how many layers one sees the whole picture.
func fullAttentionEvery(c call) any {
	list := c.cfg.Numbers("fullatt_block_indexes")
	if len(list) == 0 {
		c.refuse("it has no fullatt_block_indexes")
		return nil
	}
	every := int64(list[0]) + 1
	for i, at := range list {
		if at != float64(every*int64(i+1)-1) {
			c.refuse("fullatt_block_indexes is not every so many layers, as llama.cpp has it")
			return nil
		}
	}
	if rest := c.count("n_layers") - every*int64(len(list)); every < 1 || rest < 0 || rest >= every {
		c.refuse("fullatt_block_indexes does not go to the last layer, as llama.cpp has it")
	}
	return every
}

// Parts returns the parts whose towers a file has: an audio tower by its key and its tensors,
// a vision tower unless the file has only an audio tower.
func Parts(tower *tensorfs.Model) (list []architectures.Part) {
	has := func(part architectures.Part) bool {
		return ByKey(tower.Metadata)[architectures.FactOf("has_" + string(part)).Keys[0]] == true
	}
	hears := has(architectures.Audio) && slices.ContainsFunc(tower.Tensors, func(t tensorfs.Tensor) bool { return PartOf(t.Source) == architectures.Audio })
	if !hears || has(architectures.Vision) {
		list = append(list, architectures.Vision)
	}
	if hears {
		list = append(list, architectures.Audio)
	}
	return list
}

// PartOf returns the part of a tensor in a file with both towers.
func PartOf(source string) architectures.Part {
	if strings.HasPrefix(source, "a.") || strings.HasPrefix(source, "mm.a.") {
		return architectures.Audio
	}
	return architectures.Vision
}

// FromProjector reads the metadata of a tower in a file, for a directory that has it beside a
// language model. The error is why there is no such directory.
func FromProjector(part architectures.Part, text, tower *tensorfs.Model) (*Projector, error) {
	return readProjector(part, text, tower, true)
}

// ReadProjector is FromProjector of a tower for which there may be no class.
func ReadProjector(part architectures.Part, text, tower *tensorfs.Model) (*Projector, error) {
	return readProjector(part, text, tower, false)
}

func readProjector(part architectures.Part, text, tower *tensorfs.Model, inClass bool) (*Projector, error) {
	s := newModel(tower, architectures.FromGGUF)
	s.keys = newMetadata(tower.Metadata)
	s.keys.prefix = part.Prefix() + "."
	v, key := s.keys.find(architectures.FactOf("projector_type").Keys[0], architectures.FactOf(string(part) + "_projector_type").Keys[0])
	name, _ := v.(string)
	has := func(name string) bool {
		return slices.ContainsFunc(tower.Tensors, func(t tensorfs.Tensor) bool { return t.Source == name })
	}
	x := &Projector{Projector: architectures.ProjectorNamed(name, part, has), model: s, parts: Parts(tower)}
	switch {
	case v == nil:
		return nil, fmt.Errorf("it has no %s, and is no %s tower", key, part)
	case x.Projector == nil:
		return nil, fmt.Errorf("no %sprojector %s is known", soundOf(part), Shown(v))
	}
	s.arch = x.Settings
	language, _ := ByKey(text.Metadata)["general.architecture"].(string)
	x.class = x.Beside[language]
	if x.class == "" && inClass {
		return nil, fmt.Errorf("no directory of Hugging Face with the projector %s and a language model of %s can be made", name, Shown(language))
	}
	if len(x.Layer) == 0 { // the keys are 0, and say nothing
		for _, fact := range []string{"n_layers", "n_heads", "ffn_dim"} {
			s.known[fact] = int64(0)
		}
	}
	s.known["blocks"], s.known["language"] = s.count("n_layers"), language
	s.known["hears"] = slices.Contains(x.parts, architectures.Audio)
	if a, ok := ByKey(text.Metadata)[language+"."+architectures.FactOf("rope_sections").Keys[0]].(tensorfs.Array); ok && a.Len() <= 4 {
		var sections []any
		for v := range a.Values() {
			if n, _ := wholeNumber(v); n > 0 {
				sections = append(sections, n)
			}
		}
		s.known["text_sections"] = sections
	}
	if a, ok := ByKey(text.Metadata)[language+"."+architectures.FactOf("projector_layers").Keys[0]].(tensorfs.Array); ok && a.Len() <= maxList {
		var layers []any
		for v := range a.Values() {
			n, _ := wholeNumber(v)
			layers = append(layers, n)
		}
		s.known["text_projectors"] = layers
	}
	for _, need := range s.arch.Words("needs") {
		if !architectures.FactOf(need).List && !s.has(need) && s.failed == nil { // config.json has none of the lists
			s.refuse("it has no %s", s.full(need))
		}
	}
	width, _ := wholeNumber(ByKey(text.Metadata)[language+".embedding_length"])
	if got := s.count("projection_dim"); got != width && s.failed == nil {
		s.refuse("it is made for a language model of width %d, and this one has %d", got, width)
	}
	return x, s.failed
}

// Found is a tower with what finds its modules.
type Found struct {
	*Projector
	Tensor func(module string) *tensorfs.Tensor
}

// ProjectorConfig returns the config.json of a directory with the towers: text is the language
// model's, and tokens are the vocabulary. The notes list missing fields.
func ProjectorConfig(text []byte, tokens []string, towers ...Found) (_ []byte, notes []string, err error) {
	language, err := jsonobj.Parse(text)
	if err != nil {
		return nil, nil, err
	}
	class, modelType, _ := strings.Cut(towers[0].class, ":")
	inner := Members(language)
	inner = slices.DeleteFunc(inner, func(m Member) bool { return m.Name == "architectures" })
	o := Object{{"architectures", []string{class}}, {"model_type", modelType}, {"text_config", inner}}
	for _, x := range towers {
		x.model.given.Tensor = x.Tensor
		x.model.known["class_type"] = modelType
		if o, err = x.addFields(o); err != nil {
			return nil, nil, err
		}
	}
	for _, same := range []string{"tie_word_embeddings", "torch_dtype"} {
		if language.Has(same) {
			o = o.With(same, language.Raw(same))
		}
	}
	for _, x := range towers {
		for _, field := range slices.Sorted(maps.Keys(x.Tokens)) {
			id := slices.Index(tokens, x.Tokens[field])
			if id < 0 {
				notes = append(notes, fmt.Sprintf("config.json does not say %s, because the vocabulary has no %s", field, x.Tokens[field]))
				continue
			}
			o = o.With(field, int64(id))
		}
		unread, err := x.unread()
		if err != nil {
			return nil, nil, err
		}
		notes = append(notes, unread...)
	}
	return o.Text(), notes, nil
}

// addFields adds the fields of a tower to a config.json.
func (x *Projector) addFields(o Object) (Object, error) {
	s := x.model
	text := o.Index("text_config")
	for i := range s.arch.Config {
		item := &s.arch.Config[i]
		if !item.When.HoldsIn(&s.env) {
			continue
		}
		path := strings.Split(item.Name, ".")
		if path[0] == "text_config" { // replaces what only the language model has
			inner, _ := o[text].Value.(Object)
			if at := inner.Index(path[1]); len(path) == 2 && at >= 0 {
				o[text].Value = slices.Delete(inner, at, at+1)
			}
		}
		v := s.field(item)
		if v == nil && s.failed == nil { // a class would take a default for it
			s.refuse("the file does not say what %s is", item.Name)
		}
		o = o.at(path, v)
	}
	return o, s.failed
}

// unread is Model.Unread of a tower's file. Whether an activation or an epsilon is the one that the class has is asked here: config.json does
// not say all of them.
func (x *Projector) unread() (notes []string, err error) {
	s := x.model
	var silent []string
	for _, key := range slices.Sorted(maps.Keys(s.keys.at)) {
		v := s.keys.at[key]
		switch {
		case x.isOfAnother(key) || s.keys.asked[key] || s.describes(key) || isNothing(v) || !strings.HasPrefix(key, clipKeys) && architectures.NeedsNoRow(key):
			continue
		}
		if _, text := v.(string); !text && !architectures.Harmless(key, x.Part.Prefix()) {
			return nil, fmt.Errorf("%s is %s, and what it means for a tower of %s is not known", tensorfs.Quote(key), Shown(v), s.arch.Name)
		}
		silent = append(silent, tensorfs.Printable(key))
	}
	if len(silent) > 0 {
		notes = append(notes, "of the keys of mmproj.gguf these are not read: "+someOf(silent))
	}
	for i := range s.arch.Keys {
		item := &s.arch.Keys[i]
		key := s.full(item.Name)
		isMade := slices.ContainsFunc(s.arch.Config, func(c architectures.Setting) bool { return c.Fact == item.Fact })
		if isMade || item.Value == nil || item.Fact.Kind != architectures.Flag && item.Fact.Kind != architectures.Real {
			continue
		}
		want, have := s.value(item.Value), s.keys.value(key)
		if n, ok := have.(float32); ok {
			wanted, _ := want.(float64)
			if math.Abs(float64(n)-wanted) > 1e-3*wanted {
				return nil, fmt.Errorf("%s is %v, and the class has %v", key, n, wanted)
			}
		} else if want == true && have != true && (have != nil || item.Name != "has_"+string(x.Part)) {
			return nil, fmt.Errorf("%s is %s, and the tower of %s needs true", key, Shown(have), s.arch.Name)
		}
	}
	return notes, nil
}

// isOfAnother reports whether a key is about a tower of another part.
func (x *Projector) isOfAnother(key string) bool {
	for _, part := range x.parts {
		if part != x.Part && (strings.HasPrefix(key, part.Prefix()+".") || key == architectures.FactOf("has_" + string(part)).Keys[0]) {
			return true
		}
	}
	return false
}

// Joins reports whether the directory's class has all experts of a layer in one tensor.
func (x *Projector) Joins() bool {
	class, _, _ := strings.Cut(x.class, ":")
	return slices.Contains(x.Joined, class)
}

// TextName returns the name of a language model's tensor in a directory with the tower.
func (x *Projector) TextName(name string) string {
	for begin, to := range x.Text {
		if rest, ok := strings.CutPrefix(name, begin); ok {
			return to + rest
		}
	}
	return name
}
