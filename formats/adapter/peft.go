package adapter

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
)

// maxRank bounds the rank of a module.
const maxRank = 1 << 16

// beyond are keys of adapter_config.json that say that there is more to the adapter than
// its tensors, unless they are null, false or empty.
var beyond = []struct{ key, why string }{
	{"layer_replication", "it repeats layers of the base"},
	{"alora_invocation_tokens", "it holds from some tokens on, and not in the weights"},
	{"megatron_config", "its modules are Megatron's"},
	{"use_qalora", "its A is for groups of columns"},
	{"use_bdlora", "its matrices are blocks"},
	{"arrow_config", "which of several adapters holds is chosen at each token"},
	{"monteclora_config", "its numbers are random, and drawn again at each use"},
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

	rank, alpha   patterns
	steps         int                 // that names of modules may still take
	parameters    map[string][]string // of target_parameters, by the end of the module's name
	tokens        map[string][]int64  // of trainable_token_indices, by the end of the module's name
	ends          []int               // lengths of the ends of names in parameters
	rsLoRA, inOut bool
	biases        bool // the base's own are trained, too
	dora          bool
	usualR        int
	usualA        float64
}

// refuse is an error about a key.
func (c *config) refuse(key, why string) error {
	return refusal(c.where, key, why, "merge the adapter with PEFT, and name the result")
}

// isSet reports whether a value is set.
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
	object, where, err := readObject(m)
	if err != nil {
		return nil, err
	}
	c := &config{m: m, where: where, Object: object}
	return c, c.check()
}

// check validates the settings for all modules.
func (c *config) check() (err error) {
	if kind := c.Raw(KeyType); kind.Kind() != 0 && kind.Text() != TypeLoRA {
		return c.refuse(KeyType, tensorfs.Quote(kind.Text())+" is not "+TypeLoRA)
	}
	for _, b := range beyond {
		if isSet(c.Raw(b.key)) {
			return c.refuse(b.key, b.why)
		}
	}
	how := strings.ToLower(c.Raw(KeyInit).Text())
	for _, x := range changesBase {
		if how == x || strings.HasPrefix(how, x+"_") {
			return c.refuse(KeyInit, tensorfs.Quote(how)+" changed the base while the adapter was trained, so the adapter fits only the changed base")
		}
	}
	number := func(key string, least, most float64) (float64, error) {
		n, ok := finite(c.Raw(key))
		if !ok || n < least || n > most {
			return 0, c.refuse(key, fmt.Sprintf("%s is not a number from %v to %v", tensorfs.Quote(c.Raw(key).String()), least, most))
		}
		return n, nil
	}
	r, err := number(KeyRank, 1, maxRank)
	if err != nil {
		return err
	}
	c.usualR = int(r)
	if float64(c.usualR) != r {
		return c.refuse(KeyRank, "a rank is a whole number")
	}
	if c.usualA, err = number(KeyAlpha, -math.MaxFloat32, math.MaxFloat32); err != nil {
		return err
	}
	c.rsLoRA = c.Raw(KeyRSLoRA).Kind() == 't'
	c.dora = c.Raw(KeyDoRA).Kind() == 't'
	c.biases = isSet(c.Raw(KeyBias)) && c.Raw(KeyBias).Text() != BiasNone
	c.inOut = c.Raw(KeyFanInFanOut).Kind() == 't'
	c.steps = freeSteps
	if err = c.readPatterns(KeyRanks, &c.rank); err == nil {
		err = c.readPatterns(KeyAlphas, &c.alpha)
	}
	if err == nil {
		err = c.readParameters()
	}
	if err == nil {
		err = c.readTokens()
	}
	return err
}

// maxParameters bounds the parameters of one module. Stacks of experts have two.
const maxParameters = 8

// readParameters reads target_parameters.
func (c *config) readParameters() error {
	const key = "target_parameters"
	c.parameters = map[string][]string{}
	lengths := map[int]bool{}
	for p := range c.Raw(key).Elements() {
		at := strings.LastIndexByte(p.Text(), '.')
		if at < 1 {
			return c.refuse(key, tensorfs.Quote(p.String())+" is not a module and a parameter of it")
		}
		module, name := p.Text()[:at], p.Text()[at+1:]
		list := c.parameters[module]
		if slices.Contains(list, name) {
			continue
		}
		if len(list) == maxParameters {
			return c.tooMany(module)
		}
		c.parameters[module] = append(list, name)
		if !lengths[at] {
			lengths[at], c.ends = true, append(c.ends, at)
		}
	}
	return nil
}

func (c *config) tooMany(module string) error {
	return c.refuse("target_parameters", fmt.Sprintf("it names more than %d parameters of %s", maxParameters, tensorfs.Quote(module)))
}

// finite returns a value that is a finite number.
func finite(r jsonobj.Raw) (float64, bool) {
	if r.Kind() != '0' {
		return 0, false
	}
	n, err := strconv.ParseFloat(r.String(), 64)
	return n, err == nil && !math.IsInf(n, 0) && !math.IsNaN(n)
}

// readPatterns reads rank_pattern or alpha_pattern, in the order of the file.
func (c *config) readPatterns(key string, to *patterns) error {
	for name, value := range c.Object.Object(key).All() {
		n, ok := finite(value)
		if !ok {
			return c.refuse(key, fmt.Sprintf("%s is not a number", tensorfs.Quote(value.String())))
		}
		if key == KeyRanks && (n < 1 || n > maxRank || n != math.Trunc(n)) {
			return c.refuse(key, fmt.Sprintf("%v is not a rank", n))
		}
		if problem := to.add(name, n); problem != "" {
			return c.refuse(key, problem)
		}
	}
	return nil
}

// valueOf returns the value of the first key that one of a module's names has.
func (c *config) valueOf(key string, p *patterns, usual float64, names []string) (float64, error) {
	first := len(p.values)
	for _, name := range names {
		k, steps := p.firstKey(name, c.steps)
		if c.steps -= steps; c.steps < 0 {
			return 0, c.refuse(key, "its expressions take too long for the names of the modules; write names in their place")
		}
		first = min(first, k)
	}
	if first == len(p.values) {
		return usual, nil
	}
	return p.values[first], nil
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
		name := unwrapped(t.Source)
		below, isBias := strings.CutSuffix(name, baseLayer+".bias")
		if isBase(name) || isBias && !c.biases {
			continue
		}
		if isBias { // the base's own, trained
			name = below + ".bias"
		}
		module, p, adapter := split(name)
		if p == nil {
			return nil, wrong(m, t.Source, "it is not a known part of a LoRA adapter")
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
			parameters, err := c.parametersOf(k.module)
			if err != nil {
				return nil, err
			}
			a.Modules = append(a.Modules, Module{Name: k.module, Nested: k.nested, Parameters: parameters, FanInFanOut: c.inOut})
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
		if err := c.unwrap(a.Modules, i); err != nil {
			return nil, err
		}
		if err := c.complete(&a.Modules[i]); err != nil {
			return nil, err
		}
	}
	if len(a.Modules) == 0 {
		return nil, wrong(m, "", "it has no tensors")
	}
	hasTokens := func(x Module) bool { return x.Tokens != nil }
	if isSet(c.Raw(tokensKey)) && !slices.ContainsFunc(a.Modules, hasTokens) {
		return nil, c.refuse(tokensKey, "the adapter has no rows of tokens")
	}
	return a, nil
}

// unwrap takes a product below base_layer for the module's own if the module has no other:
// the model was wrapped twice.
func (c *config) unwrap(list []Module, i int) error {
	x := &list[i]
	if x.Nested == 0 || x.Parameters != nil {
		return nil
	}
	same := func(k int) bool { return k >= 0 && k < len(list) && list[k].Name == x.Name }
	if same(i-1) || same(i+1) {
		return wrong(c.m, anyOf(x).Source, "it is a second adapter of %s in one file: merge them with PEFT, and name the result", tensorfs.Quote(x.Name))
	}
	x.Nested = 0
	return nil
}

// anyOf is a tensor of a module.
func anyOf(x *Module) *tensorfs.Tensor {
	return cmp.Or(x.A, x.B, x.Weight, x.WholeBias, x.Tokens, x.Magnitude, x.Bias)
}

// parametersOf returns the parameters of a module that target_parameters names, sorted.
func (c *config) parametersOf(module string) (list []string, err error) {
	for _, n := range c.ends {
		at := len(module) - n
		if at == 0 || at > 0 && module[at-1] == '.' {
			list = append(list, c.parameters[module[at:]]...)
		}
	}
	slices.Sort(list)
	if list = slices.Compact(list); len(list) > maxParameters {
		return nil, c.tooMany(module)
	}
	return list, nil
}

// complete checks a module, and sets the factor of its product.
func (c *config) complete(x *Module) error {
	if x.Weight == nil {
		x.Weight = x.Saved
	}
	if err := x.checkPair(c.m); err != nil {
		return err
	}
	if x.Tokens != nil {
		return c.completeTokens(x)
	}
	if x.A == nil {
		for _, t := range []*tensorfs.Tensor{x.Magnitude, x.Bias} {
			if t != nil {
				return wrong(c.m, t.Source, "there is no A and no B beside it")
			}
		}
		return nil
	}
	names := []string{x.Name}
	for _, p := range x.Parameters {
		names = append(names, x.Name+"."+p)
	}
	c.steps += stepsOfByte * len(x.Name)
	rank, err := c.valueOf(KeyRanks, &c.rank, float64(c.usualR), names)
	if err != nil {
		return err
	}
	alpha, err := c.valueOf(KeyAlphas, &c.alpha, c.usualA, names)
	if err != nil {
		return err
	}
	x.Rank = int64(rank)
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
		return wrong(c.m, x.A.Source, "shape %v does not fit the rank in %s, which is %d", x.A.Shape, ConfigName, x.Rank)
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

// about returns the file's description of the adapter.
func (c *config) about() About {
	a := About{Rank: c.usualR, Alpha: c.usualA, Base: c.Raw(KeyBase).Text(), Kind: "lora"}
	switch {
	case c.dora:
		a.Kind = "dora"
	case c.rsLoRA:
		a.Kind = "rslora"
	}
	if t := c.Raw(KeyTargets); t.Kind() == '"' {
		a.Targets = []string{t.Text()}
	}
	for _, key := range []string{KeyTargets, "target_parameters", "modules_to_save"} {
		if c.Raw(key).Kind() != '[' {
			continue
		}
		for e := range c.Raw(key).Elements() {
			a.Targets = append(a.Targets, e.Text())
		}
	}
	return a
}
