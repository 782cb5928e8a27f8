package views

import (
	"slices"
	"strings"
)

// group is a rule of fusion: the parts, in row order, that make up one matrix.
type group struct {
	tower    string // "layers", or the tower in front of it: "enc.layers"
	out      string // stem below the layer
	parts    []string
	experts  bool   // parts are stacks: each expert's parts are together
	fallback string // only where this other group cannot be built
}

// groups is the table of fusions. Each holds for .weight and .bias; a fallback
// only for .weight. "{e}" means an expert's number.
var groups = []group{
	{tower: "layers", out: "attention.qkv", parts: []string{"attention.q", "attention.k", "attention.v"}},
	{tower: "layers", out: "attention.qk", parts: []string{"attention.q", "attention.k"}, fallback: "attention.qkv"},
	{tower: "layers", out: "attention.kv", parts: []string{"attention.k", "attention.v"}, fallback: "attention.qkv"},
	{tower: "layers", out: "attention.qkv_a", parts: []string{"attention.q_a", "attention.kv_a"}},
	{tower: "layers", out: "cross_attn.kv", parts: []string{"cross_attn.k", "cross_attn.v"}},
	{tower: "layers", out: "ffn.gate_up", parts: []string{"ffn.gate", "ffn.up"}},
	{tower: "layers", out: "ffn.shared.gate_up", parts: []string{"ffn.shared.gate", "ffn.shared.up"}},
	{tower: "layers", out: "ffn.experts.{e}.gate_up", parts: []string{"ffn.experts.{e}.gate", "ffn.experts.{e}.up"}},
	{tower: "layers", out: "ffn.experts.gate_up", parts: []string{"ffn.experts.gate", "ffn.experts.up"}, experts: true},
	{tower: "enc.layers", out: "attn.qkv", parts: []string{"attn.q", "attn.k", "attn.v"}},
	{tower: "enc.layers", out: "ffn.gate_up", parts: []string{"ffn.gate", "ffn.up"}},
	{tower: "vision.layers", out: "attention.qkv", parts: []string{"attention.q", "attention.k", "attention.v"}},
	{tower: "vision.layers", out: "ffn.gate_up", parts: []string{"ffn.gate", "ffn.up"}},
	{tower: "audio.layers", out: "attention.qkv", parts: []string{"attention.q", "attention.k", "attention.v"}},
}

// place is a tensor's position: everything in its name except the stem.
type place struct {
	prefix string // "draft.layers.7", up to and with the layer's number
	expert string // number after ".experts.", or ""
	param  string // "weight" or "bias"
}

// name puts a stem in its place.
func (p place) name(stem string) string {
	return p.prefix + "." + strings.Replace(stem, "{e}", p.expert, 1) + "." + p.param
}

// locate splits a canonical name into its tower, its place and its stem with
// "{e}" for an expert's number.
func locate(name string) (tower string, at place, stem string, ok bool) {
	i := strings.LastIndex(name, "layers.")
	if i < 0 || i > 0 && name[i-1] != '.' {
		return
	}
	number, rest, ok := strings.Cut(name[i+len("layers."):], ".")
	if !ok || !digits(number) {
		return "", at, "", false
	}
	at.prefix = name[:i] + "layers." + number
	tower = "layers"
	for _, t := range []string{"enc.", "vision.", "audio."} {
		if before, ok := strings.CutSuffix(name[:i], t); ok && (before == "" || before[len(before)-1] == '.') {
			tower = t + tower
		}
	}
	dot := strings.LastIndexByte(rest, '.')
	if dot < 0 {
		return "", at, "", false
	}
	stem, at.param = rest[:dot], rest[dot+1:]
	if before, after, found := strings.Cut(stem, ".experts."); found {
		if e, part, more := strings.Cut(after, "."); more && digits(e) {
			at.expert, stem = e, before+".experts.{e}."+part
		}
	}
	return tower, at, stem, at.param == "weight" || at.param == "bias"
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// Group is a matrix that joins others.
type Group struct {
	Whole string   // canonical name
	Parts []string // of it, in the order of their rows
}

// GroupsOf returns the groups that a tensor of that canonical name may be the whole or a
// part of.
func GroupsOf(name string) (list []Group) {
	tower, at, stem, ok := locate(name)
	if !ok {
		return nil
	}
	for i := range groups {
		g := &groups[i]
		if g.tower != tower || g.out != stem && !slices.Contains(g.parts, stem) {
			continue
		}
		all := Group{Whole: at.name(g.out)}
		for _, p := range g.parts {
			all.Parts = append(all.Parts, at.name(p))
		}
		list = append(list, all)
	}
	return list
}
