package adapter

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
	"github.com/tensorfs/tensorfs/internal/source"
)

// maxConfig bounds adapter_config.json.
const maxConfig = 4 << 20

// maxRank bounds the rank of a module.
const maxRank = 1 << 16

// beyond are keys of adapter_config.json that say that there is more to the adapter than
// its tensors, unless they are null, false or empty.
var beyond = []struct{ key, why string }{
	{"layer_replication", "it makes layers of others"},
	{"trainable_token_indices", "it changes some rows of the embedding in a way of its own"},
	{"alora_invocation_tokens", "it holds from some tokens on, and not in the weights"},
	{"megatron_config", "its modules are those of Megatron"},
	{"use_qalora", "its A is for groups of columns"},
	{"use_bdlora", "its matrices are blocks"},
	{"arrow_config", "which of several adapters holds is chosen at each token"},
	{"monteclora_config", "its numbers are drawn anew"},
	{"velora_config", "it is more than a product"},
	{"kasa_config", "it changes the base too"},
}

// changesBase are values of init_lora_weights whose adapters are for a base that was changed
// when they were made.
var changesBase = []string{"pissa", "olora", "corda", "loftq", "lora_ga"}

// config is adapter_config.json.
type config struct {
	m     *tensorfs.Model
	where string
	jsonobj.Object

	rank, alpha   []pattern
	parameters    map[string][]string // of target_parameters, by the end of the module's name
	rsLoRA, inOut bool
	dora          bool
	usualR        int
	usualA        float64
}

// pattern is a line of rank_pattern or alpha_pattern.
type pattern struct {
	key   string
	match *regexp.Regexp
	value float64
}

// refuse is an error about a key.
func (c *config) refuse(key, why string) error {
	return &tensorfs.FormatError{File: c.where, Offset: -1, Problem: fmt.Sprintf("%q: %s", key, why), Kind: tensorfs.ErrUnsupported,
		Advice: "merge the adapter with PEFT, and name the result"}
}

// isSet reports whether a value says anything.
func isSet(r jsonobj.Raw) bool {
	switch r.Kind() {
	case 0, 'n', 'f':
		return false
	case '[', '{':
		for range r.Elements() {
			return true
		}
		for range r.Members() {
			return true
		}
		return false
	case '"':
		return r.Text() != ""
	}
	return true
}

func readConfig(m *tensorfs.Model) (*config, error) {
	c := &config{m: m, where: ConfigName}
	if i := slices.IndexFunc(m.Sources, func(s tensorfs.Source) bool { return s.Name == ConfigName }); i >= 0 {
		c.where = m.Sources[i].Path
	}
	d, err := m.File(ConfigName)
	if err != nil {
		return nil, err
	}
	text, err := source.ReadAll(d, c.where, maxConfig)
	if err != nil {
		return nil, err
	}
	if c.Object, err = jsonobj.Parse(text); err != nil {
		return nil, &tensorfs.FormatError{File: c.where, Offset: -1, Problem: err.Error()}
	}
	return c, c.check()
}

// check takes what the file says of all modules.
func (c *config) check() (err error) {
	if kind := c.Raw("peft_type"); kind.Kind() != 0 && kind.Text() != "LORA" {
		return c.refuse("peft_type", tensorfs.Quote(kind.Text())+" is not LORA")
	}
	for _, b := range beyond {
		if isSet(c.Raw(b.key)) {
			return c.refuse(b.key, b.why)
		}
	}
	how := strings.ToLower(c.Raw("init_lora_weights").Text())
	for _, x := range changesBase {
		if how == x || strings.HasPrefix(how, x+"_") {
			return c.refuse("init_lora_weights", tensorfs.Quote(how)+" changed the base when the adapter was made, and the adapter is for that base alone")
		}
	}
	number := func(key string, least, most float64) (float64, error) {
		n, ok := finite(c.Raw(key))
		if !ok || n < least || n > most {
			return 0, c.refuse(key, fmt.Sprintf("%s is not a number from %v to %v", tensorfs.Quote(c.Raw(key).String()), least, most))
		}
		return n, nil
	}
	r, err := number("r", 1, maxRank)
	if err != nil {
		return err
	}
	c.usualR = int(r)
	if float64(c.usualR) != r {
		return c.refuse("r", "a rank is a whole number")
	}
	if c.usualA, err = number("lora_alpha", -math.MaxFloat32, math.MaxFloat32); err != nil {
		return err
	}
	c.rsLoRA = c.Raw("use_rslora").Kind() == 't'
	c.dora = c.Raw("use_dora").Kind() == 't'
	c.inOut = c.Raw("fan_in_fan_out").Kind() == 't'
	if c.rank, err = c.patterns("rank_pattern"); err == nil {
		c.alpha, err = c.patterns("alpha_pattern")
	}
	if err != nil {
		return err
	}
	c.parameters = map[string][]string{}
	for p := range c.Raw("target_parameters").Elements() {
		at := strings.LastIndexByte(p.Text(), '.')
		if at < 1 {
			return c.refuse("target_parameters", tensorfs.Quote(p.String())+" is not a module and a parameter of it")
		}
		module := p.Text()[:at]
		c.parameters[module] = append(c.parameters[module], p.Text()[at+1:])
	}
	return nil
}

// finite returns a value that is a finite number.
func finite(r jsonobj.Raw) (float64, bool) {
	if r.Kind() != '0' {
		return 0, false
	}
	n, err := strconv.ParseFloat(r.String(), 64)
	return n, err == nil && !math.IsInf(n, 0) && !math.IsNaN(n)
}

// patterns reads rank_pattern or alpha_pattern, in the order of the file.
func (c *config) patterns(key string) (list []pattern, err error) {
	for name, value := range c.Object.Object(key).All() {
		p := pattern{key: name}
		var ok bool
		if p.value, ok = finite(value); !ok {
			return nil, c.refuse(key, fmt.Sprintf("%s is not a number", tensorfs.Quote(value.String())))
		}
		if key == "rank_pattern" && (p.value < 1 || p.value > maxRank || p.value != math.Trunc(p.value)) {
			return nil, c.refuse(key, fmt.Sprintf("%v is not a rank", p.value))
		}
		if p.match, err = regexp.Compile(`^(?:.*\.)?(?:` + name + `)$`); err != nil {
			return nil, c.refuse(key, fmt.Sprintf("%s is not a pattern that is read: %v", tensorfs.Quote(name), err))
		}
		list = append(list, p)
	}
	return list, nil
}

// of returns the value of the first pattern that a module's name has.
func of(list []pattern, usual float64, names ...string) float64 {
	for _, p := range list {
		if slices.ContainsFunc(names, p.match.MatchString) {
			return p.value
		}
	}
	return usual
}

// prefix begins PEFT's names.
const prefix = "base_model.model."

// part is what a tensor is to its module.
type part struct {
	mark string // in the name, and what may follow the name of the adapter
	to   func(x *Module) **tensorfs.Tensor
	end  string
}

var parts = []part{
	{".lora_A", func(x *Module) **tensorfs.Tensor { return &x.A }, ".weight"},
	{".lora_B", func(x *Module) **tensorfs.Tensor { return &x.B }, ".weight"},
	{".lora_B", func(x *Module) **tensorfs.Tensor { return &x.Bias }, ".bias"},
	{".lora_embedding_A", func(x *Module) **tensorfs.Tensor { x.Embedding = true; return &x.A }, ""},
	{".lora_embedding_B", func(x *Module) **tensorfs.Tensor { x.Embedding = true; return &x.B }, ""},
	{".lora_magnitude_vector", func(x *Module) **tensorfs.Tensor { return &x.Magnitude }, ""},
	{".lora_magnitude_vector", func(x *Module) **tensorfs.Tensor { return &x.Magnitude }, ".weight"},
	{".modules_to_save", func(x *Module) **tensorfs.Tensor { return &x.Weight }, ".weight"},
}

// ignored ends names of tensors that are the base's own.
const (
	baseLayer = ".base_layer"
	ignored   = baseLayer + ".weight"
)

// split returns the module and the part that a name means, and the name of an adapter in it.
func split(name string) (module string, p *part, adapter string) {
	for i := range parts {
		p := &parts[i]
		rest, ok := strings.CutSuffix(name, p.end)
		if !ok {
			continue
		}
		at := strings.LastIndex(rest, p.mark)
		if at < 1 {
			continue
		}
		switch after := rest[at+len(p.mark):]; {
		case after == "":
			return rest[:at], p, ""
		case after[0] == '.' && len(after) > 1 && !strings.Contains(after[1:], "."):
			return rest[:at], p, after[1:]
		}
	}
	if module, ok := strings.CutSuffix(name, ".weight"); ok && module != "" && !strings.Contains(name, ".lora_") {
		return module, &parts[len(parts)-1], ""
	}
	return "", nil, ""
}

// ofPEFT reads an adapter of PEFT.
func ofPEFT(m *tensorfs.Model) (*Adapter, error) {
	c, err := readConfig(m)
	if err != nil {
		return nil, err
	}
	a := &Adapter{Path: m.Path, Layout: "hf", About: c.about()}
	type key struct {
		module string
		nested int
	}
	at := map[key]int{}
	named, first := "", ""
	for i := range m.Tensors {
		t := &m.Tensors[i]
		name := strings.TrimPrefix(t.Source, prefix)
		if strings.HasSuffix(name, ignored) {
			continue
		}
		module, p, adapter := split(name)
		if p == nil {
			return nil, wrong(m, t.Source, "it is no part of a LoRA adapter that is known")
		}
		if adapter != "" {
			if first != "" && adapter != named {
				return nil, wrong(m, t.Source, "it is of the adapter %s, and %s of %s: one file has one adapter", tensorfs.Quote(adapter), tensorfs.Quote(first), tensorfs.Quote(named))
			}
			named, first = adapter, t.Source
		}
		k := key{module: module}
		for strings.HasSuffix(k.module, baseLayer) {
			k.module, k.nested = strings.TrimSuffix(k.module, baseLayer), k.nested+1
		}
		n, ok := at[k]
		if !ok {
			n = len(a.Modules)
			at[k] = n
			a.Modules = append(a.Modules, Module{Name: k.module, Nested: k.nested, Parameters: c.parametersOf(k.module), FanInFanOut: c.inOut})
		}
		to := p.to(&a.Modules[n])
		if *to != nil {
			return nil, wrong(m, t.Source, "it and %s are the same part", tensorfs.Quote((*to).Source))
		}
		*to = t
	}
	slices.SortStableFunc(a.Modules, func(x, y Module) int {
		return cmp.Or(strings.Compare(x.Name, y.Name), cmp.Compare(y.Nested, x.Nested)) // the module's first parameter is innermost
	})
	for i := range a.Modules {
		if err := c.complete(&a.Modules[i]); err != nil {
			return nil, err
		}
	}
	if len(a.Modules) == 0 {
		return nil, wrong(m, "", "it has no tensors")
	}
	return a, nil
}

// parametersOf returns those of a module's parameters that target_parameters names.
func (c *config) parametersOf(module string) (list []string) {
	for _, end := range slices.Sorted(maps.Keys(c.parameters)) {
		if module == end || strings.HasSuffix(module, "."+end) {
			list = append(list, c.parameters[end]...)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// complete checks a module, and says by what its product is multiplied.
func (c *config) complete(x *Module) error {
	if err := x.checkPair(c.m); err != nil {
		return err
	}
	if x.A == nil {
		for _, t := range []*tensorfs.Tensor{x.Magnitude, x.Bias} {
			if t != nil {
				return wrong(c.m, t.Source, "there is no A and no B beside it")
			}
		}
		return nil
	}
	if x.Nested > 0 && x.Parameters == nil {
		return wrong(c.m, x.A.Source, "target_parameters names no parameter of %s", tensorfs.Quote(x.Name))
	}
	names := []string{x.Name}
	for _, p := range x.Parameters {
		names = append(names, x.Name+"."+p)
	}
	x.Rank = int64(of(c.rank, float64(c.usualR), names...))
	alpha := of(c.alpha, c.usualA, names...)
	x.Scale = alpha / float64(x.Rank)
	if c.rsLoRA {
		x.Scale = alpha / math.Sqrt(float64(x.Rank))
	}
	for _, t := range []*tensorfs.Tensor{x.A, x.B} {
		if err := matrix(c.m, t, 2); err != nil {
			return err
		}
	}
	rows, columns := x.A.Shape[0], x.B.Shape[1]
	switch {
	case c.dora && x.Magnitude == nil:
		return wrong(c.m, x.A.Source, "\"use_dora\": there is no lora_magnitude_vector for %s", tensorfs.Quote(x.Name))
	case rows != columns:
		return wrong(c.m, x.A.Source, "shape %v and shape %v of B have no common rank", x.A.Shape, x.B.Shape)
	case x.Parameters == nil && rows != x.Rank, rows%x.Rank != 0:
		return wrong(c.m, x.A.Source, "shape %v, where %s says that the rank is %d", x.A.Shape, ConfigName, x.Rank)
	case x.Parameters == nil && x.Rank > max(x.A.Shape[1], x.B.Shape[0]):
		return wrong(c.m, x.A.Source, "a rank of %d is more than the %d columns and %d rows of the weight", x.Rank, x.A.Shape[1], x.B.Shape[0])
	}
	for _, t := range []*tensorfs.Tensor{x.Magnitude, x.Bias} {
		if t == nil {
			continue
		}
		if err := matrix(c.m, t, 1); err != nil {
			return err
		}
		if t.Shape[0] != x.B.Shape[0] {
			return wrong(c.m, t.Source, "shape %v, where B has %d rows", t.Shape, x.B.Shape[0])
		}
	}
	return nil
}

// about is what the file says of the adapter.
func (c *config) about() About {
	a := About{Rank: c.usualR, Alpha: c.usualA, Base: c.Raw("base_model_name_or_path").Text(), Kind: "lora"}
	switch {
	case c.dora:
		a.Kind = "dora"
	case c.rsLoRA:
		a.Kind = "rslora"
	}
	if t := c.Raw("target_modules"); t.Kind() == '"' {
		a.Targets = []string{t.Text()}
	}
	for _, key := range []string{"target_modules", "target_parameters", "modules_to_save"} {
		if c.Raw(key).Kind() != '[' {
			continue
		}
		for e := range c.Raw(key).Elements() {
			a.Targets = append(a.Targets, e.Text())
		}
	}
	return a
}
