package settings

// gatings are how routers weigh experts, in GGUF's numbers.
var gatings = map[string]int64{"softmax": 1, "sigmoid": 2}

// gatingFields are the fields of config.json that say it.
var gatingFields = []string{"scoring_func", "score_function", "score_func", "moe_router_activation_func"}

// expertMeanings are about experts.
var expertMeanings = map[string]meaning{
	// How the router weighs experts; the argument is how without a word.
	"gating": {toGGUF: func(c call) any {
		w := c.cfg.Word(gatingFields...)
		if w == "" && len(c.args) > 0 {
			w = c.args[0].Name
		}
		if w == "" {
			return nil
		}
		n, ok := gatings[w]
		if !ok {
			c.refuse("experts are weighed by %s, and llama.cpp does so by softmax and sigmoid", Shown(w))
		}
		return n
	}},
	// Whether a DeepSeek is of the third version, whose router weighs experts by sigmoids
	// and corrects them.
	"biased_router": {fromGGUF: func(c call) any {
		gating := c.count("expert_gating")
		corrected := c.tensor(layerPrefix(c.count("n_dense_layers"))+"ffn.router.correction.bias") != nil
		if gating > gatings["sigmoid"] || corrected && gating == gatings["softmax"] {
			c.refuse("%s is %d, which config.json of DeepSeek cannot say with the router of the file", c.full("expert_gating"), gating)
		}
		return gating == gatings["sigmoid"] || corrected
	}},
	// Some layers have no experts.
	"dense_layers": {toGGUF: check(func(c call) {
		if len(c.cfg.Numbers("mlp_only_layers")) > 0 {
			c.refuse("mlp_only_layers names layers without experts, and llama.cpp has none in such models")
		}
	})},
	// A model that compresses k and v but not q is one that llama.cpp knows by its number
	// of layers.
	"light_layers": {toGGUF: check(func(c call) {
		n := c.count("n_layers")
		if !c.has("q_lora_rank") && n != 26 && n != 27 && !(n == 48 && c.given.Rows == 128256) {
			c.refuse("it has no q_lora_rank, without which llama.cpp takes models of 26 or 27 layers")
		}
	})},
	"experts_used": {fromGGUF: check(func(c call) {
		if used, n := c.count("n_experts_used"), c.count("n_experts"); used > n {
			c.refuse("%s is %d, and there are %d experts", c.full("n_experts_used"), used, n)
		}
	})},
	// The number of groups of experts, 1 by default.
	"groups": {fromGGUF: func(c call) any { return max(c.number(0), 1) }},
	// Experts form the groups, and there are as many layers as those without experts.
	"grouped": {fromGGUF: check(func(c call) {
		n, used := max(c.count("expert_groups"), 1), max(c.count("expert_groups_used"), 1)
		if experts := c.count("n_experts"); experts%n != 0 || used > n {
			c.refuse("%d experts do not fit %d groups with %d groups in use", experts, n, used)
		}
		if dense := c.count("n_dense_layers"); dense > c.count("n_layers") {
			c.refuse("%s is %d, and there are %d layers", c.full("n_dense_layers"), dense, c.count("n_layers"))
		}
	})},
	// How many rows llama.cpp takes an expert of Qwen to have where the file does not say it.
	"shared_out": {fromGGUF: func(c call) any {
		used, ff := c.count("n_experts_used"), c.count("ffn_dim")
		if used == 0 || ff == 0 || ff%used != 0 {
			c.refuse("the file has no %s", c.full("expert_ffn_dim"))
			return nil
		}
		return ff / used
	}},
}

// checkExperts refuses experts that llama.cpp cannot use.
func (s *Model) checkExperts() {
	switch n, used := s.count("n_experts"), s.count("n_experts_used"); {
	case n > 0 && used == 0:
		s.lacks("n_experts_used")
	case used > n:
		s.refuse("%d experts are used of %d", used, n)
	}
}
