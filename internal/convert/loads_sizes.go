package convert

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"sync"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/architectures"
	"github.com/tensorfs/tensorfs/internal/convert/internal/settings"
)

// number returns the key of a fact and its value, 0 without the key; false if it is not one
// whole number.
func (h *header) number(fact string) (key string, n int64, ok bool) {
	f := architectures.FactOf(fact)
	key, v := h.keyOf(f)
	if v == nil {
		return settings.FullKey(h.arch, f.Keys[0]), 0, true
	}
	if r := reflect.ValueOf(v); r.CanUint() {
		return key, int64(r.Uint()), true
	}
	return key, 0, false
}

// expertStack are the tensors of all experts of a layer.
var expertStack = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^blk\.\d+\.ffn_(gate|up|down|gate_up)_exps\.weight$`)
})

// experts finds numbers of experts that contradict each other or the tensors.
func (h *header) experts() string {
	key, n, ok := h.number("n_experts")
	usedKey, used, okUsed := h.number("n_experts_used")
	if !ok || !okUsed {
		return ""
	}
	if used > n || n > 0 && used < 1 {
		return fmt.Sprintf("%s is %d, and %s is %d", usedKey, used, key, n)
	}
	groupsKey, groups, ok := h.number("expert_groups")
	takenKey, taken, okTaken := h.number("expert_groups_used")
	switch {
	case ok && n > 0 && (groups >= n || groups > 1 && n%groups != 0):
		return fmt.Sprintf("%s is %d, and %s is %d", groupsKey, groups, key, n)
	case ok && okTaken && groups > 1 && (taken < 1 || taken >= groups):
		return fmt.Sprintf("%s is %d, and %s is %d", takenKey, taken, groupsKey, groups)
	}
	for _, t := range h.tensors {
		if len(t.Shape) == 3 && t.Shape[0] != n && expertStack().MatchString(t.Name) {
			return fmt.Sprintf("the tensor %s holds %d experts, and %s is %d", tensorfs.Quote(t.Name), t.Shape[0], key, n)
		}
	}
	return ""
}

// rotated finds a number of rotated dimensions that is not the size of a head.
func (h *header) rotated() string {
	key, n, ok := h.number("rope_dim")
	_, head, okHead := h.number("head_dim")
	_, width, okWidth := h.number("dim")
	_, heads, okHeads := h.number("n_heads")
	if head == 0 && heads > 0 {
		head = width / heads
	}
	if n == 0 || head == 0 || !ok || !okHead || !okWidth || !okHeads || n == head || !architectures.HasTrait(h.arch, architectures.WholeHeads) {
		return ""
	}
	return fmt.Sprintf("%s is %d, and a head has %d", key, n, head)
}

// keySizes are the sizes of tensors that llama.cpp derives only from keys.
var keySizes = []string{"width", "q", "k", "v", "o", "ff", "eff", "q_rank", "kv_rank", "inner", "state", "dt_rank", "kernel"}

// sameShape are the moves of modules that have the shape of their row in GGUF.
var sameShape = []string{"heads", "stack", "alternate", "kernel", "neg_exp", "exp"}

// ofLatent are the facts that hold for the tensors of architectures with latent attention, whose keys say other sizes of heads.
var ofLatent = []string{"dim", "ffn_dim", "expert_ffn_dim", "q_lora_rank", "kv_lora_rank"}

// shapes finds a tensor whose shape contradicts the keys, if its sizes are the same in
// every layer and follow only from keys.
func (h *header) shapes() string {
	a := architectures.Find(h.arch)
	if a == nil {
		return ""
	}
	known := h.lengths(a)
	modules := map[string]*architectures.Tensor{}
	add := func(list []architectures.Tensor, layer string) {
		for i := range list {
			modules[a.InGGUF(&list[i], layer)+".weight"] = &list[i]
		}
	}
	add(a.First, "")
	add(a.Layer, "0.")
	add(a.Last, "")
	for _, t := range h.tensors {
		if slices.Contains(t.Shape, 0) {
			return fmt.Sprintf("the tensor %s holds no numbers", tensorfs.Quote(t.Name))
		}
		m := modules[layerZero(t.Name)]
		if m == nil || len(t.Shape) != len(m.Shape) || slices.ContainsFunc(m.Moves, func(x architectures.Move) bool { return !slices.Contains(sameShape, x.Name) }) {
			continue
		}
		for i, dim := range m.Shape {
			if n, ok := known[dim]; ok && n != t.Shape[i] {
				return fmt.Sprintf("the tensor %s has %d where the keys say %d", tensorfs.Quote(t.Name), t.Shape[i], n)
			}
		}
	}
	return ""
}

// lengths returns the sizes of keySizes that follow from the file's keys. They are the same for
// every tensor, and a file may have a hundred thousand tensors.
func (h *header) lengths(a *architectures.Architecture) map[string]int64 {
	sizes := a.Sizes(architectures.FromGGUF, func(name string) any { return h.size(a, name) })
	known := map[string]int64{}
	for _, dim := range keySizes {
		if n, ok := sizes.Fact(dim).(int64); ok {
			known[dim] = n
		}
	}
	return known
}

// size returns a number that a key has for every layer, or llama.cpp's default without the
// key; nil if layers differ.
func (h *header) size(a *architectures.Architecture, fact string) any {
	f := architectures.FactOf(fact)
	if f == nil || a.Varies(fact) && fact != "n_heads" && fact != "n_kv_heads" || !slices.Contains(ofLatent, fact) && architectures.Latent(h.arch) {
		return nil
	}
	key, v := h.keyOf(f)
	if n := reflect.ValueOf(v); v != nil {
		if n.CanUint() && n.Uint() <= math.MaxUint32 {
			return int64(n.Uint())
		}
		return nil
	}
	switch {
	case key != "":
	case fact == "n_kv_heads":
		return h.size(a, "n_heads")
	case fact == "head_dim", fact == "value_dim":
		width, _ := h.size(a, "dim").(int64)
		if heads, known := h.size(a, "n_heads").(int64); known {
			return width / max(heads, 1)
		}
	}
	return nil
}
