package memory

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
)

// architecture is a line of architectures.txt.
type architecture struct {
	known                                                               bool
	period, window, layers, cached                                      int64
	denseFirst, allWindows, noCache, noOutput, mtpCached, indexer, both bool
	recurrent                                                           func(m *model, layer int) bool // nil means no layer
	form, graph                                                         string
}

// recurrentRules are the rules that a line may name.
var recurrentRules = map[string]func(m *model, layer int) bool{
	"all":          func(*model, int) bool { return true },
	"no-kv":        func(m *model, layer int) bool { return m.pairs[layer] == 0 },
	"no-kv-no-ffn": func(m *model, layer int) bool { return m.pairs[layer] == 0 && m.feedForward[layer] == 0 },
	"interval": func(m *model, layer int) bool {
		if m.recurrentLayers != nil {
			return m.recurrentLayers[layer] != 0
		}
		return int64(layer+1)%m.interval != 0
	},
}

//go:embed architectures.txt
var architecturesText string

//go:embed forms.txt
var formsText string

// architectures are the known ones, by name.
var architectures = func() map[string]*architecture {
	all := map[string]*architecture{}
	for line := range strings.Lines(architecturesText) {
		names, facts, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok || strings.HasPrefix(names, "#") {
			continue
		}
		a := &architecture{known: true, form: "usual"}
		for _, fact := range strings.Fields(facts) {
			a.add(fact)
		}
		for _, name := range strings.Fields(names) {
			all[name] = a
		}
	}
	return all
}()

// add takes a fact of a line.
func (a *architecture) add(fact string) {
	name, value, _ := strings.Cut(fact, "=")
	numbers := map[string]*int64{"period": &a.period, "window": &a.window, "layers": &a.layers, "cached": &a.cached}
	flags := map[string]*bool{"dense-first": &a.denseFirst, "all-windows": &a.allWindows, "no-cache": &a.noCache, "no-output": &a.noOutput, "mtp-cached": &a.mtpCached, "indexer": &a.indexer, "both": &a.both}
	texts := map[string]*string{"form": &a.form, "graph": &a.graph}
	switch {
	case numbers[name] != nil:
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil {
			panic(err)
		}
		*numbers[name] = n
	case flags[name] != nil:
		*flags[name] = true
	case texts[name] != nil:
		*texts[name] = value
	case name == "recurrent" && recurrentRules[value] != nil:
		a.recurrent = recurrentRules[value]
	default:
		panic(fmt.Sprintf("architectures.txt: what is %s?", fact))
	}
}

// form is a row of forms.txt.
type form struct{ ffn, attention, ssm *expression }

var forms = func() map[string]form {
	all := map[string]form{}
	for line := range strings.Lines(formsText) {
		if f := strings.Fields(line); len(f) == 4 && f[0][0] != '#' {
			all[f[0]] = form{expressionOf(f[1]), expressionOf(f[2]), expressionOf(f[3])}
		}
	}
	return all
}()
