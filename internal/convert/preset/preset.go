// Package preset knows which types llama-quantize gives the tensors of a GGUF file: by a name such as Q4_K_M, the
// tensors' names and shapes, and a few numbers of the model. It reads nothing and converts nothing.
//
// The rules follow llama_quant_compute_types in llama.cpp's src/llama-quant.cpp, release
// v0.5.0.
package preset

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/internal/near"
)

// Preset is what llama-quantize calls a type of a whole file.
type Preset struct {
	Name     string         // as llama-quantize writes it
	Type     tensorfs.DType // of most weights
	FileType uint32         // general.file_type
}

// All are the presets, in the order of their size in files of ordinary models.
var All = []Preset{
	{"IQ1_S", tensorfs.IQ1_S, 24},
	{"TQ1_0", tensorfs.TQ1_0, 36},
	{"IQ1_M", tensorfs.IQ1_M, 31},
	{"TQ2_0", tensorfs.TQ2_0, 37},
	{"IQ2_XXS", tensorfs.IQ2_XXS, 19},
	{"IQ2_XS", tensorfs.IQ2_XS, 20},
	{"IQ2_S", tensorfs.IQ2_XS, 28},
	{"IQ2_M", tensorfs.IQ2_S, 29},
	{"Q2_K_S", tensorfs.Q2_K, 21},
	{"Q2_K", tensorfs.Q2_K, 10},
	{"IQ3_XXS", tensorfs.IQ3_XXS, 23},
	{"IQ3_XS", tensorfs.IQ3_S, 22},
	{"IQ3_S", tensorfs.IQ3_S, 26},
	{"Q3_K_S", tensorfs.Q3_K, 11},
	{"IQ3_M", tensorfs.IQ3_S, 27},
	{"Q3_K_M", tensorfs.Q3_K, 12},
	{"Q3_K_L", tensorfs.Q3_K, 13},
	{"IQ4_XS", tensorfs.IQ4_XS, 30},
	{"MXFP4_MOE", tensorfs.MXFP4, 38},
	{"Q4_0", tensorfs.Q4_0, 2},
	{"IQ4_NL", tensorfs.IQ4_NL, 25},
	{"Q4_K_S", tensorfs.Q4_K, 14},
	{"Q4_K_M", tensorfs.Q4_K, 15},
	{"Q4_1", tensorfs.Q4_1, 3},
	{"Q5_0", tensorfs.Q5_0, 8},
	{"Q5_K_S", tensorfs.Q5_K, 16},
	{"Q5_K_M", tensorfs.Q5_K, 17},
	{"Q5_1", tensorfs.Q5_1, 9},
	{"Q6_K", tensorfs.Q6_K, 18},
	{"Q8_0", tensorfs.Q8_0, 7},
	{"F16", tensorfs.F16, 1},
	{"BF16", tensorfs.BF16, 32},
	{"F32", tensorfs.F32, 0},
}

// aliases are other names that llama-quantize takes.
var aliases = map[string]string{"Q3_K": "Q3_K_M", "Q4_K": "Q4_K_M", "Q5_K": "Q5_K_M"}

// without are presets of llama-quantize that are not made here.
var without = strings.Fields("Q1_0 Q2_0")

// Named returns a preset by its name, in any case.
func Named(name string) (Preset, error) {
	upper := strings.ToUpper(name)
	upper = cmp.Or(aliases[upper], upper)
	names := make([]string, len(All))
	for i, p := range All {
		if p.Name == upper {
			return p, nil
		}
		names[i] = p.Name
	}
	if upper == "COPY" {
		return Preset{}, errors.New("COPY is what is done without the flag; leave it out, and the weights stay as they are stored")
	}
	if slices.Contains(without, upper) {
		return Preset{}, fmt.Errorf("%s is not made here; llama-quantize makes it of the file that tensorfs cat MODEL gguf/model.gguf writes", upper)
	}
	if strings.HasPrefix(upper, "UD-") || strings.HasSuffix(upper, "_XL") {
		return Preset{}, fmt.Errorf("%s is a publisher's own mix of types; name a file that has the mix with --tensor-types-from FILE.gguf, or choose types with --tensor-type", tensorfs.Quote(name))
	}
	close := near.Names(upper, names, 3)
	if n, err := strconv.Atoi(name); err == nil { // as llama-quantize takes it, where 8 is Q5_0
		close = nil
		for _, p := range All {
			if int(p.FileType) == n || strings.HasPrefix(spoken[p.Name], name+"BIT ") {
				close = append(close, p.Name)
			}
		}
	}
	upper = strings.TrimSuffix(upper, ".GGUF")
	for _, p := range All { // q4km, 4bit
		if plain(p.Name) == plain(upper) || strings.Contains(" "+spoken[p.Name]+" ", " "+plain(upper)+" ") {
			close = []string{p.Name}
		}
	}
	if len(close) > 0 {
		return Preset{}, fmt.Errorf("llama-quantize has no preset %s; %s", tensorfs.Quote(name), near.Question(close))
	}
	return Preset{}, fmt.Errorf("llama-quantize has no preset %s; these are made here: %s", tensorfs.Quote(name), strings.Join(names, ", "))
}

// spoken are other words for a type, without what plain takes off.
var spoken = map[string]string{"Q4_K_M": "4BIT INT4 Q4", "Q5_K_M": "5BIT INT5 Q5", "Q6_K": "6BIT INT6 Q6", "Q8_0": "8BIT INT8 Q8", "F16": "HALF FLOAT16 FP16", "BF16": "BFLOAT16", "F32": "FLOAT FLOAT32 FP32 FULL"}

// plain is a name without what people leave out.
func plain(name string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "", ".", "").Replace(name)
}

// Model has the numbers of a model that types depend on.
type Model struct {
	Architecture string // general.architecture
	Layers       int64
	Experts      int64
	Heads, Pairs int64 // of q, and of k and v, in the first layer
}

// isLarge reports whether llama.cpp calls the model a 70B, by its number of layers.
func (m Model) isLarge() bool {
	layers, large := architectures.Trait(m.Architecture, architectures.Large)
	if !large && m.Heads != m.Pairs {
		layers, large = architectures.Trait(m.Architecture, architectures.LargeIfShared)
	}
	return large && layers == strconv.FormatInt(m.Layers, 10)
}

// Tensor is one of a GGUF file.
type Tensor struct {
	Name  string
	Shape []int64        // outermost first
	Type  tensorfs.DType // before

	Canonical string // the canonical name, if there is a Mix
}

// Rule gives a type to the tensors whose names a pattern is found in.
type Rule struct {
	Pattern *regexp.Regexp
	Type    tensorfs.DType
}

// RuleOf reads a rule, REGEX=TYPE. The pattern is found anywhere in a name, which has no upper case; the type is one of
// ggml's, in any case.
func RuleOf(text string) (Rule, error) {
	at := strings.LastIndexByte(text, '=')
	if at < 1 || at == len(text)-1 {
		return Rule{}, errors.New("want REGEX=TYPE, such as ffn_down=q6_k")
	}
	pattern, err := regexp.Compile(strings.ToLower(text[:at]))
	if err != nil {
		return Rule{}, fmt.Errorf("%s is not a regular expression%s", tensorfs.Quote(text[:at]), expressionProblem(err))
	}
	var names []string
	for _, p := range All {
		if strings.EqualFold(p.Type.String(), text[at+1:]) {
			return Rule{pattern, p.Type}, nil
		}
		if !slices.Contains(names, p.Type.String()) {
			names = append(names, p.Type.String())
		}
	}
	return Rule{}, fmt.Errorf("no type %s is made here; these are: %s", tensorfs.Quote(text[at+1:]), strings.Join(names, ", "))
}

// expressionProblem returns what is wrong with an expression, in the words of package regexp without its prefix.
func expressionProblem(err error) string {
	e, ok := errors.AsType[*syntax.Error](err)
	if !ok {
		return ""
	}
	return ": " + string(e.Code) + "; write a backslash before a literal character, such as \\( or \\["
}

// Options say how a preset is applied.
type Options struct {
	Preset
	Pure       bool // the preset's type everywhere
	Importance bool // there is an importance matrix, of whatever tensors
	Requantise bool // what is quantised already gets another type too
	Rules      []Rule
	From       *Mix // the types of another file, for weights that no rule is for; may be nil
	Implied    bool // only From was asked for, and the preset follows from it
}

// String names what is asked for.
func (o *Options) String() string {
	if o.Implied {
		return "the types of " + tensorfs.Printable(o.From.File)
	}
	return o.Name
}

// kept are parts of the names of weights that are never quantised.
var kept = strings.Fields(`_norm.weight ffn_gate_inp.weight ffn_gate_tid2eid.weight altup laurel per_layer_model_proj ssm_conv1d shortconv.conv.weight
	indexer.k_proj.weight indexer.q_proj.weight attn_rel_b.weight
	time_mix_first.weight time_mix_w0.weight time_mix_w1.weight time_mix_w2.weight time_mix_v0.weight time_mix_v1.weight time_mix_v2.weight
	time_mix_a0.weight time_mix_a1.weight time_mix_a2.weight time_mix_g1.weight time_mix_g2.weight
	time_mix_decay_w1.weight time_mix_decay_w2.weight time_mix_lerp_fused.weight
	.position_embd sam.pos_embd sam.neck. sam.net_ .rel_pos .patch_embd .patch_merger`)

// Quantisable reports whether a preset determines the type of a tensor.
func Quantisable(name string, shape []int64) bool {
	dims := 0
	for _, n := range shape {
		if n > 1 {
			dims++
		}
	}
	return dims >= 2 && strings.HasSuffix(name, "weight") && name != "position_embd.weight" && name != "token_types.weight" &&
		!slices.ContainsFunc(kept, func(part string) bool { return strings.Contains(name, part) })
}

// role is what a weight is for.
type role int

const (
	other role = iota
	output
	embedding
	values
	keys
	queries
	projection // after attention
	up
	gate
	down
)

func roleOf(name string) role {
	switch {
	case name == "output.weight":
		return output
	case name == "token_embd.weight", name == "per_layer_token_embd.weight":
		return embedding
	case contains(name, "attn_qkv.weight", "attn_kv_b.weight", "attn_v.weight"):
		return values
	case contains(name, "attn_k.weight"):
		return keys
	case contains(name, "attn_q.weight"):
		return queries
	case contains(name, "attn_output.weight"):
		return projection
	case contains(name, "ffn_up"):
		return up
	case contains(name, "ffn_gate"):
		return gate
	case contains(name, "ffn_down"):
		return down
	}
	return other
}

func contains(name string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(name, part) })
}

// layerOf returns the number in blk.N., -1 without one.
func layerOf(name string) int64 {
	rest, ok := strings.CutPrefix(name, "blk.")
	number, _, dot := strings.Cut(rest, ".")
	n, err := strconv.ParseInt(number, 10, 64)
	if !ok || !dot || err != nil {
		return -1
	}
	return n
}

// Types returns the types that tensors get. Tensors that are not plain floats, or that no
// preset is for, keep their type.
func (o Options) Types(m Model, tensors []Tensor) []tensorfs.DType {
	c := choice{Options: o, m: m, large: m.isLarge(), wide: architectures.HasTrait(m.Architecture, architectures.WideOutput), tied: true, at: map[role]int64{}}
	types := make([]tensorfs.DType, len(tensors))
	var order []int // tensors that get a type: by layers, and by names in a layer
	for i, t := range tensors {
		types[i] = t.Type
		c.tied = c.tied && t.Name != "output.weight"
		if roleOf(t.Name) == values {
			c.valuesIn++
		}
		if o.changes(t) {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return Compare(tensors[a].Name, tensors[b].Name) })
	for _, i := range order {
		types[i] = c.typeOf(tensors[i])
	}
	return types
}

// changes reports whether a tensor may get another type.
func (o Options) changes(t Tensor) bool {
	kind := t.Type.Kind()
	return (kind == tensorfs.KindFloat || o.Requantise && kind != tensorfs.KindInteger) && Quantisable(t.Name, t.Shape)
}

// Compare orders the names of tensors as files of llama-quantize do: tensors outside of
// layers first, then by layers, and in a layer by their bytes.
func Compare(a, b string) int {
	return cmp.Or(cmp.Compare(layerOf(a), layerOf(b)), strings.Compare(a, b))
}

// choice goes through the tensors of a model.
type choice struct {
	Options
	m        Model
	large    bool           // it is a 70B, whose values get more bits
	wide     bool           // the output gets more bits, and layers fewer: the rules for Falcon
	tied     bool           // there is no output, the embedding is
	valuesIn int64          // how many tensors make values
	at       map[role]int64 // how many were there before
}

// next returns how many tensors of a role were there before, and counts one.
func (c *choice) next(r role) int64 {
	c.at[r]++
	return c.at[r] - 1
}

// nextLayer returns the layer of a feed-forward weight: the number in its name if there are experts, and otherwise how many
// weights of its role were there before.
func (c *choice) nextLayer(r role, name string) int64 {
	n := c.next(r)
	if c.m.Experts > 1 {
		return layerOf(name)
	}
	return n
}

func (c *choice) typeOf(t Tensor) tensorfs.DType {
	perBlock, _ := c.Type.Block()
	if perBlock == 1 && c.From == nil {
		return c.Type
	}
	if to, ok := c.asked(t); ok {
		return fitting(to, t.Shape)
	}
	if perBlock == 1 {
		return c.Type
	}
	if c.Pure {
		return fitting(c.Type, t.Shape)
	}
	return fitting(c.byRole(t), t.Shape)
}

// asked returns the type that a rule or another file has for a tensor.
func (o Options) asked(t Tensor) (to tensorfs.DType, ok bool) {
	for _, r := range o.Rules {
		if r.Pattern.MatchString(t.Name) {
			return r.Type, true
		}
	}
	if o.From != nil {
		to, ok = o.From.Types[t.Canonical]
	}
	return to, ok && isMade(to)
}

// smaller are the types for rows that are not a multiple of a type's blocks. F16 is for
// rows that these do not fit either.
var smaller = map[tensorfs.DType]tensorfs.DType{
	tensorfs.IQ1_S: tensorfs.IQ4_NL, tensorfs.IQ1_M: tensorfs.IQ4_NL, tensorfs.IQ2_XXS: tensorfs.IQ4_NL, tensorfs.IQ2_XS: tensorfs.IQ4_NL,
	tensorfs.IQ2_S: tensorfs.IQ4_NL, tensorfs.IQ3_XXS: tensorfs.IQ4_NL, tensorfs.IQ3_S: tensorfs.IQ4_NL, tensorfs.IQ4_XS: tensorfs.IQ4_NL,
	tensorfs.Q2_K: tensorfs.Q4_0, tensorfs.Q3_K: tensorfs.Q4_0, tensorfs.TQ1_0: tensorfs.Q4_0, tensorfs.TQ2_0: tensorfs.Q4_0,
	tensorfs.Q4_K: tensorfs.Q5_0, tensorfs.Q5_K: tensorfs.Q5_1, tensorfs.Q6_K: tensorfs.Q8_0,
}

// weightedTypes are the types that llama-quantize makes only by an importance matrix.
var weightedTypes = []tensorfs.DType{tensorfs.IQ1_S, tensorfs.IQ1_M, tensorfs.IQ2_XXS, tensorfs.IQ2_XS, tensorfs.IQ2_S, tensorfs.IQ3_XXS}

// NeedsImportance reports whether llama-quantize refuses to give a tensor a type if it has
// no importance. The embedding and the output never need one.
func (o *Options) NeedsImportance(name string, to tensorfs.DType) bool {
	r := roleOf(name)
	return r != output && r != embedding && (slices.Contains(weightedTypes, to) || o.Name == "Q2_K_S" && to == tensorfs.Q2_K)
}

// MayNeedImportance reports whether some tensors of a model may need an importance. False is
// certain.
func (o *Options) MayNeedImportance() bool {
	_, few := fewBits[o.Name]
	if few || o.Name == "IQ3_XS" || o.Name == "Q2_K_S" {
		return true
	}
	for _, r := range o.Rules {
		if slices.Contains(weightedTypes, r.Type) {
			return true
		}
	}
	if o.From != nil {
		for _, to := range o.From.Types {
			if slices.Contains(weightedTypes, to) {
				return true
			}
		}
	}
	return false
}

func fitsBlocks(to tensorfs.DType, shape []int64) bool {
	perBlock, _ := to.Block()
	return shape[len(shape)-1]%perBlock == 0
}

func fitting(to tensorfs.DType, shape []int64) tensorfs.DType {
	if fitsBlocks(to, shape) {
		return to
	}
	if to = smaller[to]; to != tensorfs.Unknown && fitsBlocks(to, shape) {
		return to
	}
	return tensorfs.F16
}

// moreBits reports whether a layer gets more bits: in the first eighth, in the last, and every third one
// between them.
func moreBits(layer, layers int64) bool {
	return layer < layers/8 || layer >= 7*layers/8 || (layer-layers/8)%3 == 2
}

// byRole is the type of a tensor by what it is for.
func (c *choice) byRole(t Tensor) tensorfs.DType {
	few, isFew := fewBits[c.Name]
	switch role := roleOf(t.Name); {
	case role == output || role == embedding && c.tied:
		switch {
		case c.Name == "MXFP4_MOE" || c.wide || !fitsBlocks(c.Type, t.Shape) || c.Type == tensorfs.Q8_0:
			return tensorfs.Q8_0
		case isFew:
			return tensorfs.Q5_K
		}
		return tensorfs.Q6_K
	case c.Name == "MXFP4_MOE":
		if len(t.Shape) > 2 && t.Shape[len(t.Shape)-3] > 1 {
			return tensorfs.MXFP4
		}
		return tensorfs.Q8_0
	case role == embedding:
		switch {
		case isFew:
			return few.embedding
		case c.Type == tensorfs.TQ1_0 || c.Type == tensorfs.TQ2_0:
			return tensorfs.Q4_K
		}
	case isFew && few.more != tensorfs.Unknown:
		return c.byFewBits(few, role)
	case role == values:
		return c.values()
	case role == keys && c.m.Experts == 8:
		return tensorfs.Q8_0
	case role == keys || role == queries:
		return cmp.Or(queriesAndKeys[c.Name], c.Type)
	case role == up || role == gate:
		if i, n := c.nextLayer(role, t.Name), c.m.Layers; c.Name == "IQ3_XS" && i >= n/8 && i < 7*n/8 {
			return tensorfs.IQ3_XXS
		}
	case role == down:
		return c.down(t.Name)
	case role == projection:
		return c.projection()
	}
	return c.Type
}

// fewBits are the presets of the fewest bits: the types of their embedding, of the weights that get more bits, and of the
// weights after attention. A preset without a type for more bits follows the rules of all presets otherwise.
var fewBits = map[string]struct{ embedding, more, projection tensorfs.DType }{
	"IQ1_S":   {tensorfs.Q2_K, tensorfs.Q2_K, tensorfs.IQ2_XXS},
	"IQ1_M":   {tensorfs.Q2_K, tensorfs.Q2_K, tensorfs.IQ2_XXS},
	"IQ2_XXS": {tensorfs.Q2_K, tensorfs.Q2_K, tensorfs.Unknown},
	"IQ2_XS":  {tensorfs.Q2_K, tensorfs.Q2_K, tensorfs.Unknown},
	"IQ2_S":   {tensorfs.IQ3_S, tensorfs.IQ3_S, tensorfs.IQ3_S},
	"IQ2_M":   {tensorfs.IQ3_S, tensorfs.IQ3_S, tensorfs.IQ3_S},
	"IQ3_XXS": {embedding: tensorfs.IQ3_S},
}

// byFewBits is the type of a tensor, other than the output and the embedding, in a preset of few bits.
func (c *choice) byFewBits(few struct{ embedding, more, projection tensorfs.DType }, r role) tensorfs.DType {
	switch {
	case r == values && (c.shared() >= 4 || c.m.Experts >= 4), r == keys && c.m.Experts == 8:
		return tensorfs.Q4_K
	case r == values, r == down && c.next(down) < c.m.Layers/8:
		return few.more
	case r == projection && c.m.Experts == 8:
		return tensorfs.Q5_K
	case r == projection:
		return cmp.Or(few.projection, c.Type)
	}
	return c.Type
}

// queriesAndKeys are the types of the weights that make them.
var queriesAndKeys = map[string]tensorfs.DType{"IQ3_XXS": tensorfs.IQ2_S, "IQ3_XS": tensorfs.IQ3_XXS}

// shared is how many heads of q there are for each of k and v.
func (c *choice) shared() int64 {
	if c.m.Pairs <= 0 {
		return 0
	}
	return c.m.Heads / c.m.Pairs
}

func (c *choice) values() tensorfs.DType {
	shared, i := c.shared(), c.next(values)
	to := c.Type
	switch c.Name {
	case "Q2_K":
		if to = tensorfs.Q3_K; shared >= 4 {
			to = tensorfs.Q4_K
		}
	case "Q2_K_S", "IQ3_XS", "IQ3_S":
		if shared >= 4 {
			to = tensorfs.Q4_K
		}
	case "IQ3_XXS":
		switch {
		case shared >= 4:
			to = tensorfs.Q4_K
		case !c.Importance:
			to = tensorfs.IQ3_S
		}
	case "IQ3_M":
		to = tensorfs.Q4_K
	case "Q3_K_M":
		if to = tensorfs.Q4_K; i < 2 {
			to = tensorfs.Q5_K
		}
	case "Q3_K_L":
		to = tensorfs.Q5_K
	case "IQ4_NL", "IQ4_XS":
		if shared >= 4 {
			to = tensorfs.Q5_K
		}
	case "Q4_K_M", "Q5_K_M":
		if moreBits(i, c.valuesIn) {
			to = tensorfs.Q6_K
		}
	case "Q4_K_S":
		if i < 4 {
			to = tensorfs.Q5_K
		}
	}
	if c.large && (to == tensorfs.Q3_K || to == tensorfs.Q4_K) {
		to = tensorfs.Q5_K
	}
	if c.m.Experts == 8 {
		to = tensorfs.Q8_0
	}
	return to
}

func (c *choice) down(name string) tensorfs.DType {
	i, n := c.nextLayer(down, name), c.m.Layers
	switch c.Name {
	case "Q2_K":
		return tensorfs.Q3_K
	case "Q2_K_S":
		if i < n/8 {
			return tensorfs.Q4_K
		}
	case "IQ3_XXS":
		switch {
		case !c.Importance && i < n/8:
			return tensorfs.Q4_K
		case !c.Importance:
			return tensorfs.Q3_K
		}
	case "IQ3_M":
		if i < n/8 || c.m.Experts == 8 && moreBits(i, n) {
			return tensorfs.Q4_K
		}
	case "Q3_K_M":
		switch {
		case i < n/16:
			return tensorfs.Q5_K
		case !c.wide || moreBits(i, n):
			return tensorfs.Q4_K
		}
	case "Q3_K_L":
		if c.wide {
			return tensorfs.Q4_K
		}
		return tensorfs.Q5_K
	case "Q4_K_M":
		switch {
		case c.wide && i < n/16, !c.wide && moreBits(i, n):
			return tensorfs.Q6_K
		case c.wide && moreBits(i, n):
			return tensorfs.Q5_K
		}
	case "IQ4_NL", "IQ4_XS":
		if i < n/8 && !c.Importance {
			return tensorfs.Q5_K
		}
	case "Q5_K_M":
		if moreBits(i, n) {
			return tensorfs.Q6_K
		}
	case "Q4_K_S":
		if !c.wide && i < n/8 {
			return tensorfs.Q5_K
		}
	case "Q4_0":
		if c.Importance && i < n/8 {
			return tensorfs.Q4_1
		}
	case "Q5_0":
		if c.Importance && i < n/8 {
			return tensorfs.Q5_1
		}
	}
	return c.Type
}

// projections are the types of the weights after attention.
var projections = map[string]tensorfs.DType{"Q2_K": tensorfs.Q3_K, "Q3_K_M": tensorfs.Q4_K, "Q3_K_L": tensorfs.Q5_K, "IQ3_XXS": tensorfs.IQ3_S, "IQ3_M": tensorfs.Q4_K}

// projectionsOf8 are the presets in which these are Q5_K in a model of eight experts.
var projectionsOf8 = strings.Fields("Q2_K IQ3_XXS IQ3_XS IQ3_S IQ3_M Q3_K_S Q3_K_M IQ4_NL IQ4_XS Q4_K_S Q4_K_M")

func (c *choice) projection() tensorfs.DType {
	switch to := projections[c.Name]; {
	case c.wide && c.Name == "Q3_K_L":
		return tensorfs.Q4_K
	case c.wide:
	case c.m.Experts == 8:
		if slices.Contains(projectionsOf8, c.Name) {
			return tensorfs.Q5_K
		}
	case to != tensorfs.Unknown:
		return to
	}
	return c.Type
}
