/*
 * facts MODEL CACHE: config, metadata and a fused tensor of
 * testdata/gguf/llama-xs.q8_0.gguf, and what options do.
 */
#include <math.h>

#include "check.h"

int main(int argc, char **argv) {
	CHECK(argc == 3);
	tensorfs_loader *m = tensorfs_open(argv[1], &error);
	CHECK(m != NULL);
	const tensorfs_config *c = tensorfs_get_config(m, &error);
	CHECK(c != NULL);
	CHECK(strcmp(c->architecture, "llama") == 0 && strcmp(c->layout, "gguf") == 0);
	CHECK(c->dim == 64 && c->n_layers == 2 && c->max_seq_len == 4096);
	CHECK(c->norm_eps == 0.00001 && c->rope_theta == 500000 && c->rope_scaling_factor == 1);
	CHECK(c->tie_embeddings == 1 && c->n_experts == 0);
	/* Unknown ones. */
	CHECK(c->rope_orig_ctx == -1 && c->ssm_state == -1 && c->quant_mode == NULL);
	CHECK(c->n_heads_per_layer == NULL && c->n_heads_per_layer_count == 0);

	size_t n = 1;
	CHECK(strcmp(tensorfs_meta_string(m, "general.architecture", NULL, &error), "llama") == 0);
	CHECK(tensorfs_meta_string(m, "nothing", NULL, &error) == NULL && error == NULL);
	CHECK(strcmp(tensorfs_meta_string(m, "nothing", "default", &error), "default") == 0 && error == NULL);
	CHECK(tensorfs_meta_int(m, "llama.block_count", -7, &error) == 2);
	CHECK(tensorfs_meta_int(m, "general.architecture", -7, &error) == -7 && error == NULL);
	CHECK(tensorfs_meta_float(m, "llama.rope.freq_base", -7, &error) == 500000);
	CHECK(tensorfs_meta_float(m, "nothing", 1.5, &error) == 1.5);
	CHECK(tensorfs_meta_bool(m, "nothing", 1, &error) == 1 && tensorfs_meta_bool(m, "nothing", 0, &error) == 0);
	const tensorfs_string *tokens = tensorfs_meta_strings(m, "tokenizer.ggml.tokens", &n, &error);
	CHECK(tokens != NULL && n == (size_t)c->vocab_size && tokens[n] == NULL && tokens[n - 1] != NULL);
	CHECK(tokens == tensorfs_meta_strings(m, "tokenizer.ggml.tokens", NULL, &error));
	const int64_t *types = tensorfs_meta_ints(m, "tokenizer.ggml.token_type", &n, &error);
	CHECK(types != NULL && n == (size_t)c->vocab_size && types[0] > 0);
	const double *scores = tensorfs_meta_floats(m, "tokenizer.ggml.token_type", &n, &error);
	CHECK(scores != NULL && n == (size_t)c->vocab_size && scores[0] == (double)types[0]);
	CHECK(tensorfs_meta_ints(m, "tokenizer.ggml.tokens", &n, &error) == NULL && n == 0 && error == NULL);

	/* Joined here, q, k and v are what the view fused/ has of them. */
	tensorfs_string names[] = {"layers.0.attention.q.weight", "layers.0.attention.k.weight", "layers.0.attention.v.weight"};
	const tensorfs_tensor *fused = tensorfs_get_fused(m, NULL, names, 3, &error);
	CHECK(fused != NULL);
	const tensorfs_tensor *same = tensorfs_get(m, "fused", "layers.0.attention.qkv.weight", &error);
	CHECK(same != NULL);
	CHECK(fused->info->bytes == same->info->bytes && memcmp(fused->data, same->data, same->info->bytes) == 0);
	CHECK(strcmp(fused->info->dtype, same->info->dtype) == 0 && fused->info->engine_dtype == same->info->engine_dtype);
	CHECK(fused->info->rank == 2 && fused->info->shape[0] == same->info->shape[0] && fused->info->shape[1] == same->info->shape[1]);
	CHECK(tensorfs_release(fused, &error) == TENSORFS_OK && tensorfs_release(same, &error) == TENSORFS_OK);
	tensorfs_string odd[] = {"layers.0.attention.q.weight", "token_embedding.weight", NULL};
	FAILS(tensorfs_get_fused(m, NULL, odd, 3, &error), NULL, TENSORFS_INVALID, "the name is NULL");
	odd[1] = "nothing";
	FAILS(tensorfs_get_fused(m, NULL, odd, 2, &error), NULL, TENSORFS_ABSENT, "\"nothing\"");

	int64_t c_bytes = c->vocab_size * c->dim * 4;

	/* Too little memory is an error before anything is done. */
	CHECK(tensorfs_close(m, &error) == TENSORFS_OK);
	tensorfs_string views[] = {"f32"};
	tensorfs_open_options options = {.size = sizeof options};
	options.device = TENSORFS_DEVICE_HOST, options.max_memory = 100, options.views = views, options.n_views = 1;
	m = tensorfs_open_with(argv[1], &options, &error);
	CHECK(m != NULL);
	const tensorfs_string *all = tensorfs_views(m, &n, &error);
	CHECK(all && n == 1 && strcmp(all[0], "f32") == 0);
	tensorfs_ref refs[] = {{"f32", "token_embedding.weight"}};
	const tensorfs_load_plan *plan = tensorfs_plan(m, refs, 1, &error);
	CHECK(plan != NULL && plan->limit == 100 && plan->need > 100 && plan->memory > 100);
	CHECK(tensorfs_plan_release(plan, &error) == TENSORFS_OK);
	FAILS(tensorfs_load(m, refs, 1, NULL, &error), NULL, TENSORFS_NO_MEMORY, "not enough memory");
	CHECK(tensorfs_close(m, &error) == TENSORFS_OK);

	/* Converted into the cache, and found there by the next loader. */
	options.max_memory = 0, options.cache_dir = argv[2];
	for (int i = 0; i < 2; i++) {
		m = tensorfs_open_with(argv[1], &options, &error);
		CHECK(m != NULL);
		plan = tensorfs_plan(m, refs, 1, &error);
		CHECK(plan != NULL && (i == 0 ? plan->memory : plan->cache) == (uint64_t)c_bytes);
		CHECK(tensorfs_plan_release(plan, &error) == TENSORFS_OK);
		tensorfs_load_options load = {.size = sizeof load};
		load.cache = i == 0 ? TENSORFS_CACHE_READ_WRITE : TENSORFS_CACHE_READ;
		tensorfs_set *set = tensorfs_load(m, refs, 1, &load, &error);
		CHECK(set != NULL);
		const tensorfs_tensor *t = tensorfs_set_get(set, "f32", "token_embedding.weight", &error);
		CHECK(t != NULL && t->origin == TENSORFS_ORIGIN_CACHE);
		CHECK(strncmp(t->file, argv[2], strlen(argv[2])) == 0);
		CHECK(tensorfs_set_release(set, &error) == TENSORFS_OK);
		CHECK(tensorfs_close(m, &error) == TENSORFS_OK);
	}

	/* Offsets as they were asked for, and a pad behind every tensor that can be read. */
	memset(&options, 0, sizeof options);
	options.size = sizeof options, options.offset_align = 4096, options.tail_pad = 10000;
	m = tensorfs_open_with(argv[1], &options, &error);
	CHECK(m != NULL);
	const tensorfs_string *packed = tensorfs_names(m, NULL, &n, &error);
	CHECK(packed != NULL && n > 10);
	unsigned sum = 0;
	for (size_t i = 0; i < n; i++) {
		const tensorfs_tensor *t = tensorfs_get(m, NULL, packed[i], &error);
		CHECK(t != NULL && t->buffer_offset % 4096 == 0 && (uintptr_t)t->data % 4096 == 0);
		for (uint64_t b = 0; b < t->info->bytes + options.tail_pad; b++)
			sum += ((const unsigned char *)t->data)[b];
		CHECK(tensorfs_release(t, &error) == TENSORFS_OK);
	}
	CHECK(sum > 0);
	options.offset_align = 100;
	CHECK(tensorfs_close(m, &error) == TENSORFS_OK);
	m = tensorfs_open_with(argv[1], &options, &error);
	FAILS(m, NULL, TENSORFS_FAILED, "power of two");
	return 0;
}
