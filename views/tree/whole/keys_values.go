package whole

// is returns a value that config.json leaves out when it is this one, which the
// class of the model has by default. One that is null is not this one.
func is(v any, fields ...string) value {
	return func(d *describer) any {
		for _, f := range fields {
			if d.cfg.null(f) {
				d.refuse("%s is null, which a GGUF file of %s cannot say", f, d.arch.name)
			}
		}
		return v
	}
}

// like returns the value of a key that was made before.
func like(name string) value {
	return func(d *describer) any { return d.made[name] }
}

// times returns a multiple of a key that was made before.
func times(n int64, name string) value {
	return func(d *describer) any {
		if !d.has(name) {
			return nil
		}
		return n * d.count(name)
	}
}

// sum returns the sum of fields that must all be there.
func sum(fields ...string) value {
	return func(d *describer) any {
		total := int64(0)
		for _, f := range fields {
			n, ok := d.cfg.integer(f)
			if !ok || n < 0 || n > limits["embedding_length"] {
				d.refuse("%s is needed, and it is missing or not a size", f)
				return nil
			}
			total += n
		}
		return total
	}
}

// headRows returns the size of a head where config.json does not say it: the rows
// of q decide, then what the class has by default. A size that llama.cpp
// assumes itself is not written.
func headRows(usual int64) value {
	return func(d *describer) any {
		heads, dim := d.count("attention.head_count"), d.count("embedding_length")
		q := d.shape("layers.0.attention.q.weight")
		size := usual
		if len(q) == 2 && heads > 0 && q[0]%heads == 0 {
			size = q[0] / heads
		}
		if size == 0 || usual == 0 && heads > 0 && dim == size*heads {
			return nil
		}
		return size
	}
}

// keyHeads returns the number of heads of k and v where config.json does not say
// it and they are not as many as those of q.
func keyHeads(d *describer) any {
	k, size := d.shape("layers.0.attention.k.weight"), d.headSize()
	if len(k) != 2 || size == 0 || k[0]%size != 0 || k[0]/size == d.count("attention.head_count") {
		return nil
	}
	return k[0] / size
}

// keyHeadsOr returns the number of heads of k and v, which is written always.
func keyHeadsOr(other value) value {
	return func(d *describer) any {
		if n := keyHeads(d); n != nil {
			return n
		}
		if d.shape("layers.0.attention.k.weight") != nil {
			return d.made["attention.head_count"]
		}
		return other(d)
	}
}

// fusedKeyHeads returns the number of heads of k and v that are stored in one
// tensor with q; other decides without it.
func fusedKeyHeads(other value) value {
	return func(d *describer) any {
		qkv, size, heads := d.shape("layers.0.attention.qkv.weight"), d.headSize(), d.count("attention.head_count")
		if len(qkv) == 2 && size > 0 && qkv[0]%size == 0 && (qkv[0]/size-heads)%2 == 0 && qkv[0]/size > heads {
			return (qkv[0]/size - heads) / 2
		}
		return other(d)
	}
}

// headSize returns the size of a head of q and k, 0 where nothing says it.
func (d *describer) headSize() int64 {
	if n := d.count("attention.key_length"); n > 0 {
		return n
	}
	heads, dim := d.count("attention.head_count"), d.count("embedding_length")
	if heads <= 0 || dim%heads != 0 {
		return 0
	}
	return dim / heads
}

// headSizes is headSize as a value.
func headSizes(d *describer) any {
	n := d.headSize()
	if n == 0 {
		return nil
	}
	return n
}

// keyHeadCount returns the number of heads of k and v.
func (d *describer) keyHeadCount() int64 {
	if d.has("attention.head_count_kv") {
		return d.count("attention.head_count_kv")
	}
	return d.count("attention.head_count")
}

// hasExperts reports whether a model has experts: dense ones may say that they
// have none.
func hasExperts(d *describer) bool {
	n, ok := d.cfg.integer("num_local_experts", "num_experts", "n_routed_experts")
	return ok && n != 0
}

// gatings are how routers weigh experts, in GGUF's numbers.
var gatings = map[string]int64{"softmax": 1, "sigmoid": 2}

// gating returns how the router weighs experts.
func gating(d *describer) any {
	w := d.cfg.word("scoring_func", "score_function", "score_func", "moe_router_activation_func")
	if w == "" {
		return nil
	}
	n, ok := gatings[w]
	if !ok {
		d.refuse("experts are weighed by %s, and llama.cpp does so by softmax and sigmoid", shown(w))
	}
	return n
}

// noncausal returns false for a model whose tokens see those after them.
func noncausal(d *describer) any {
	if causal, ok := d.cfg.flag("is_causal"); ok && !causal {
		return false
	}
	return nil
}

// onlyTrue returns a flag that is true, and nothing for one that is not.
func onlyTrue(field string) value {
	return func(d *describer) any {
		if set, _ := d.cfg.flag(field); set {
			return true
		}
		return nil
	}
}

// layerKinds returns how far the tokens of each layer see, one word for each.
func (d *describer) layerKinds() []string {
	kinds := d.cfg.words("layer_types")
	if kinds == nil {
		return nil
	}
	if int64(len(kinds)) != d.count("block_count") {
		d.refuse("layer_types has %d entries for %d layers", len(kinds), d.count("block_count"))
		return nil
	}
	for _, k := range kinds {
		if k != "sliding_attention" && k != "full_attention" {
			d.refuse("layer_types has %s, which GGUF files of %s do not know", shown(k), d.arch.name)
			return nil
		}
	}
	return kinds
}

// hasPeriod reports whether every layer whose number, from 1, is a multiple of n
// sees everything, and no other.
func hasPeriod(kinds []string, n int64) bool {
	for i, k := range kinds {
		if (k == "full_attention") != (int64(i+1)%n == 0) {
			return false
		}
	}
	return true
}

// period returns after how many layers one sees everything: the usual number
// wherever it says the same. It is 1 where all do.
func period(usual int64) func(d *describer) int64 {
	return func(d *describer) int64 {
		kinds := d.layerKinds()
		if kinds == nil {
			n, ok := d.cfg.integer("sliding_window_pattern", "_sliding_window_pattern")
			if ok && n < 1 {
				d.refuse("sliding_window_pattern is %d", n)
			}
			if !ok || n < 1 || min(n, usual) > d.count("block_count") {
				return usual
			}
			return n
		}
		if hasPeriod(kinds, usual) {
			return usual
		}
		for n := int64(1); n <= int64(len(kinds))+1; n++ {
			if hasPeriod(kinds, n) {
				return n
			}
		}
		d.refuse("layer_types has no period, and llama.cpp knows no other order")
		return usual
	}
}
