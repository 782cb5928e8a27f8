/*
 * check MODEL VIEW...: prints every tensor of the views through tensorfs.h, one a
 * line, for comparison with what the model holds; then the ways to fail.
 */
#include <poll.h>
#include <pthread.h>
#include <sched.h>

#include "check.h"

static char first_name[4096];

static uint64_t fnv(const unsigned char *p, uint64_t n) {
	uint64_t h = 14695981039346656037u;
	for (uint64_t i = 0; i < n; i++)
		h = (h ^ p[i]) * 1099511628211u;
	return h;
}

static void print(const tensorfs_tensor *t) {
	const tensorfs_tensor_info *i = t->info;
	printf("%s/%s %s %d [", i->view, i->name, i->dtype, i->engine_dtype);
	for (size_t d = 0; d < i->rank; d++)
		printf(d ? ",%" PRId64 : "%" PRId64, i->shape[d]);
	printf("] %" PRIu64 " %016" PRIx64, i->bytes, fnv(t->data, i->bytes));
	if (i->quant_mode)
		printf(" %s/%d/%d", i->quant_mode, i->quant_bits, i->quant_group_size);
	for (size_t s = 0; s < i->n_sections; s++)
		printf(" %s:%s:%" PRIu64 "+%" PRIu64, i->sections[s].name, i->sections[s].dtype, i->sections[s].offset, i->sections[s].bytes);
	printf("\n");
	/* A device's buffer begins on a page, buffer_offset bytes before the data. */
	CHECK(((uintptr_t)t->data - t->buffer_offset) % 4096 == 0);
	CHECK(t->buffer == NULL); /* of the host */
	CHECK(t->origin >= TENSORFS_ORIGIN_MODEL && t->origin <= TENSORFS_ORIGIN_MEMORY);
	CHECK(t->file != NULL && (t->file[0] == '/' || t->origin == TENSORFS_ORIGIN_MEMORY));
}

struct reported { uint64_t done, total; };

static int progress(uint64_t done, uint64_t total, void *context) {
	struct reported *r = context;
	CHECK(done >= r->done && done <= total);
	r->done = done, r->total = total;
	return 0;
}

/* A progress function cannot close the model. */
static int closing(uint64_t done, uint64_t total, void *model) {
	(void)done, (void)total;
	FAILS(tensorfs_close(model, &error), TENSORFS_IN_USE, TENSORFS_IN_USE, "running");
	return 0;
}

static int cancel(uint64_t done, uint64_t total, void *context) {
	(void)done, (void)total, (void)context;
	return 1;
}

/* Rows in the caller's memory are those of the tensor. */
static void rows(tensorfs_loader *model, const tensorfs_tensor *t) {
	const tensorfs_tensor_info *i = t->info;
	int64_t all = i->rank ? i->shape[0] : 1;
	char *memory = malloc(i->bytes + 1);
	CHECK(tensorfs_read(model, i->view, i->name, 0, all, memory, i->bytes, &error) == TENSORFS_OK);
	CHECK(memcmp(memory, t->data, i->bytes) == 0);
	FAILS(tensorfs_read(model, i->view, i->name, 0, all, memory, i->bytes + 1, &error), TENSORFS_INVALID, TENSORFS_INVALID, "take");
	FAILS(tensorfs_read(model, i->view, i->name, 0, all + 1, memory, i->bytes, &error), TENSORFS_INVALID, TENSORFS_INVALID, "which has");
	FAILS(tensorfs_read(model, i->view, i->name, -1, all, memory, i->bytes, &error), TENSORFS_INVALID, TENSORFS_INVALID, "which has");
	if (i->n_sections > 1 || strncmp(i->view, "npy", 3) == 0) {
		if (all > 1)
			FAILS(tensorfs_read(model, i->view, i->name, 1, all, memory, 0, &error), TENSORFS_INVALID, TENSORFS_INVALID, "row by row");
	} else if (all > 2) {
		uint64_t each = i->bytes / (uint64_t)all;
		CHECK(tensorfs_read(model, i->view, i->name, 1, all - 1, memory, i->bytes - 2 * each, &error) == TENSORFS_OK);
		CHECK(memcmp(memory, (const char *)t->data + each, i->bytes - 2 * each) == 0);
		CHECK(tensorfs_read(model, i->view, i->name, 2, 2, memory, 0, &error) == TENSORFS_OK);
	}
	free(memory);
}

/* What is written to private memory is seen nowhere else. */
static void private(tensorfs_loader *model, const tensorfs_tensor *t) {
	const tensorfs_tensor_info *i = t->info;
	const tensorfs_tensor *a = tensorfs_get_private(model, i->view, i->name, &error);
	const tensorfs_tensor *b = tensorfs_get_private(model, i->view, i->name, &error);
	CHECK(a && b && a != b && a->info == i && a->origin == (i->bytes ? t->origin : TENSORFS_ORIGIN_MEMORY));
	CHECK(i->bytes == 0 || (a->data != b->data && a->data != t->data && memcmp(a->data, t->data, i->bytes) == 0));
	FAILS(tensorfs_close(model, &error), TENSORFS_IN_USE, TENSORFS_IN_USE, "in use");
	uint64_t before = fnv(t->data, i->bytes);
	for (uint64_t k = 0; k < i->bytes; k++)
		((unsigned char *)a->data)[k] ^= 255;
	CHECK(fnv(t->data, i->bytes) == before && fnv(b->data, i->bytes) == before);
	CHECK(i->bytes == 0 || fnv(a->data, i->bytes) != before);
	CHECK(tensorfs_release(a, &error) == TENSORFS_OK && tensorfs_release(b, &error) == TENSORFS_OK);
	FAILS(tensorfs_release(a, &error), TENSORFS_INVALID, TENSORFS_INVALID, "released");
	const tensorfs_tensor *again = tensorfs_get_private(model, i->view, i->name, &error);
	CHECK(again && fnv(again->data, i->bytes) == before && tensorfs_release(again, &error) == TENSORFS_OK);
}

/* The files of the tree, down to the bottom: each is as long as it says. */
static void files(tensorfs_loader *model, const char *directory) {
	size_t n = 0;
	const tensorfs_string *names = tensorfs_files(model, directory, &n, &error);
	CHECK(names != NULL && names[n] == NULL);
	for (size_t i = 0; i < n; i++) {
		char path[4096], *memory;
		snprintf(path, sizeof path, "%s%s", directory, names[i]);
		if (path[strlen(path) - 1] == '/') {
			files(model, path);
			continue;
		}
		int64_t size = tensorfs_file_size(model, path, &error);
		CHECK(size >= 0);
		memory = malloc((size_t)size + 1);
		CHECK(tensorfs_file_read(model, path, 0, memory, (uint64_t)size + 1, &error) == size);
		if (size > 3) {
			char some[3];
			CHECK(tensorfs_file_read(model, path, size - 3, some, 3, &error) == 3 && memcmp(some, memory + size - 3, 3) == 0);
		}
		CHECK(tensorfs_file_read(model, path, size + 5, memory, 1, &error) == 0);
		free(memory);
	}
}

/* Every tensor of a view, from a set and alone. */
static void view(tensorfs_loader *model, const char *view) {
	size_t n = 0;
	const tensorfs_string *names = tensorfs_names(model, view, &n, &error);
	CHECK(names != NULL && names[n] == NULL && tensorfs_count(model, view, NULL) == n);
	CHECK(names == tensorfs_names(model, view, NULL, NULL)); /* is remembered */
	tensorfs_ref *refs = calloc(n + 1, sizeof *refs);
	uint64_t bytes = 0;
	for (size_t i = 0; i < n; i++) {
		refs[i].view = view, refs[i].name = names[i];
		const tensorfs_tensor_info *info = tensorfs_info(model, view, names[i], &error);
		CHECK(info && info == tensorfs_info(model, view, names[i], NULL));
		CHECK(tensorfs_has(model, view, names[i], NULL) == 1);
		CHECK(tensorfs_absent(model, view, names[i], &error) == NULL && error == NULL);
		bytes += info->bytes;
		const tensorfs_tensor *t = tensorfs_get(model, view, names[i], &error);
		CHECK(t != NULL);
		FAILS(tensorfs_close(model, &error), TENSORFS_IN_USE, TENSORFS_IN_USE, names[i]);
		CHECK(tensorfs_release(t, &error) == TENSORFS_OK);
	}
	const tensorfs_load_plan *plan = tensorfs_plan(model, refs, n, &error);
	CHECK(plan != NULL);
	CHECK(plan->model + plan->cache + plan->memory == bytes);
	for (size_t w = 0; w < plan->n_windows; w++)
		CHECK(plan->windows[w].file[0] == '/' && plan->windows[w].bytes > 0);
	CHECK(tensorfs_plan_release(plan, &error) == TENSORFS_OK);

	struct reported reported = {0, bytes};
	tensorfs_load_options options = {.size = sizeof options};
	options.progress = progress, options.context = &reported, options.workers = 3;
	tensorfs_set *set = tensorfs_load(model, refs, n, &options, &error);
	CHECK(set != NULL);
	CHECK(reported.done == reported.total);
	CHECK(tensorfs_set_residency(set, &error) == NULL && error == NULL);
	for (size_t i = 0; i < n; i++) {
		const tensorfs_tensor *t = tensorfs_set_get(set, view, names[i], &error);
		CHECK(t && t == tensorfs_set_get(set, view, names[i], &error));
		CHECK(t->info == tensorfs_info(model, view, names[i], &error));
		print(t);
		rows(model, t);
		private(model, t);
		const tensorfs_tensor *alone = tensorfs_get(model, view, names[i], &error);
		const tensorfs_tensor *again = tensorfs_get(model, view, names[i], &error);
		CHECK(alone && again && alone != again && alone->data == again->data && alone->buffer_offset == again->buffer_offset);
		CHECK(alone->info == t->info && memcmp(alone->data, t->data, t->info->bytes) == 0);
		CHECK(tensorfs_release(alone, &error) == TENSORFS_OK && tensorfs_release(again, &error) == TENSORFS_OK);
		if (i == 0) {
			FAILS(tensorfs_release(t, &error), TENSORFS_INVALID, TENSORFS_INVALID, "release the set");
			FAILS(tensorfs_release(again, &error), TENSORFS_INVALID, TENSORFS_INVALID, "released");
		}
	}
	if (n > 0)
		FAILS(tensorfs_close(model, &error), TENSORFS_IN_USE, TENSORFS_IN_USE, "in use");
	FAILS(tensorfs_set_get(set, view, "nothing", &error), NULL, TENSORFS_ABSENT, "\"nothing\"");
	CHECK(tensorfs_set_release(set, &error) == TENSORFS_OK);
	FAILS(tensorfs_set_release(set, &error), TENSORFS_INVALID, TENSORFS_INVALID, "released");
	options.progress = closing, options.context = model;
	set = tensorfs_load(model, refs, n, &options, &error);
	CHECK(set != NULL && tensorfs_set_release(set, &error) == TENSORFS_OK);
	options.progress = cancel;
	if (bytes > 0)
		FAILS(tensorfs_load(model, refs, n, &options, &error), NULL, TENSORFS_CANCELLED, "ended it");
	free(refs);
}

static void *thread(void *model) {
	size_t n = 0;
	const tensorfs_string *names = tensorfs_names(model, "raw", &n, NULL);
	for (size_t i = 0; i < 5 * n; i++) {
		const tensorfs_tensor *t = tensorfs_get(model, "raw", names[i % n], NULL);
		CHECK(t != NULL);
		CHECK(tensorfs_release(t, NULL) == TENSORFS_OK);
	}
	return NULL;
}

/* Calls while another thread closes the model: each one ends before, or is refused. */
static void *until_closed(void *model) {
	char bytes[16];
	for (int i = 0;; i++) {
		tensorfs_error *e = NULL;
		const tensorfs_tensor *t = NULL;
		switch (i % 5) {
		case 0: t = tensorfs_get(model, "raw", first_name, &e); break;
		case 1: t = tensorfs_get_private(model, "raw", first_name, &e); break;
		case 2: tensorfs_info(model, "raw", first_name, &e); break;
		case 3: tensorfs_file_read(model, "config.json", 0, bytes, sizeof bytes, &e); break;
		case 4: tensorfs_read(model, "raw", first_name, 0, 0, NULL, 0, &e); break;
		}
		if (e != NULL) {
			if (e->status != TENSORFS_INVALID || strstr(e->text, "closed") == NULL)
				fprintf(stderr, "%s\n", e->text), exit(1);
			tensorfs_error_free(e);
			return NULL;
		}
		CHECK(tensorfs_release(t, NULL) == TENSORFS_OK);
		poll(NULL, 0, 1); /* close is refused while any call runs */
	}
}

static void close_under_calls(const char *path) {
	for (int round = 0; round < 10; round++) {
		tensorfs_open_options options = {.size = sizeof options};
		options.device = TENSORFS_DEVICE_HOST;
		tensorfs_loader *model = tensorfs_open_with(path, &options, &error);
		CHECK(model != NULL);
		const tensorfs_string *names = tensorfs_names(model, "raw", NULL, &error);
		CHECK(names && names[0]);
		snprintf(first_name, sizeof first_name, "%s", names[0]); /* names end with the model */
		tensorfs_ref ref = {"raw", first_name};
		const tensorfs_load_plan *plan = tensorfs_plan(model, &ref, 1, &error);
		CHECK(plan != NULL);
		uint64_t bytes = plan->model + plan->cache + plan->memory;
		pthread_t threads[4];
		for (int i = 0; i < 4; i++)
			CHECK(pthread_create(&threads[i], NULL, until_closed, model) == 0);
		tensorfs_status status;
		while ((status = tensorfs_close(model, &error)) == TENSORFS_IN_USE) {
			tensorfs_error_free(error);
			error = NULL;
			sched_yield();
		}
		CHECK(status == TENSORFS_OK);
		for (int i = 0; i < 4; i++)
			CHECK(pthread_join(threads[i], NULL) == 0);
		/* A plan is valid until it is released. */
		CHECK(plan->model + plan->cache + plan->memory == bytes && (plan->n_windows == 0 || plan->windows[0].file[0] == '/'));
		CHECK(tensorfs_plan_release(plan, &error) == TENSORFS_OK);
	}
}

/* What has no loader, no text or no sense is an error, and clang knows it before. */
#pragma GCC diagnostic ignored "-Wnonnull"
static void mistakes(tensorfs_loader *model) {
	FAILS(tensorfs_names(model, "nothing", NULL, &error), NULL, TENSORFS_ABSENT, "\"nothing\"");
	FAILS(tensorfs_get(model, "raw", "nothing", &error), NULL, TENSORFS_ABSENT, "\"nothing\"");
	FAILS(tensorfs_info(model, "raw", "nothing", &error), NULL, TENSORFS_ABSENT, "\"nothing\"");
	CHECK(strstr(tensorfs_absent(model, "raw", "nothing", &error), "\"nothing\"") && error == NULL);
	CHECK(tensorfs_has(model, "raw", "nothing", &error) == 0 && tensorfs_count(model, "nothing", &error) == 0 && error == NULL);
	tensorfs_ref refs[] = {{"raw", "nothing"}, {"raw", NULL}};
	FAILS(tensorfs_load(model, refs, 1, NULL, &error), NULL, TENSORFS_ABSENT, "\"nothing\"");
	FAILS(tensorfs_plan(model, refs, 1, &error), NULL, TENSORFS_ABSENT, "\"nothing\"");
	FAILS(tensorfs_load(model, refs + 1, 1, NULL, &error), NULL, TENSORFS_INVALID, "NULL");
	FAILS(tensorfs_load(model, NULL, 1, NULL, &error), NULL, TENSORFS_INVALID, "1 tensors");
	FAILS(tensorfs_get(model, "raw", NULL, &error), NULL, TENSORFS_INVALID, "the name is NULL");
	FAILS(tensorfs_get(NULL, "raw", "x", &error), NULL, TENSORFS_INVALID, "the loader is NULL");
	FAILS(tensorfs_get((tensorfs_loader *)&error, "raw", "x", &error), NULL, TENSORFS_INVALID, "the loader was closed");
	FAILS(tensorfs_set_get((tensorfs_set *)model, "raw", "x", &error), NULL, TENSORFS_INVALID, "the set was closed");
	FAILS(tensorfs_names(NULL, "raw", NULL, &error), NULL, TENSORFS_INVALID, "the loader is NULL");
	FAILS(tensorfs_meta_int(NULL, "x", 7, &error), 7, TENSORFS_INVALID, "the loader is NULL");
	FAILS(tensorfs_meta_int(model, NULL, 7, &error), 7, TENSORFS_INVALID, "the key is NULL");
	FAILS(tensorfs_get_fused(model, "raw", NULL, 2, &error), NULL, TENSORFS_INVALID, "2 names");
	char byte;
	FAILS(tensorfs_read(model, "raw", "nothing", 0, 1, &byte, 1, &error), TENSORFS_ABSENT, TENSORFS_ABSENT, "\"nothing\"");
	FAILS(tensorfs_files(model, "nothing", NULL, &error), NULL, TENSORFS_NOT_FOUND, "nothing");
	FAILS(tensorfs_files(model, "README", NULL, &error), NULL, TENSORFS_INVALID, "no directory");
	FAILS(tensorfs_files(model, NULL, NULL, &error), NULL, TENSORFS_INVALID, "the path is NULL");
	FAILS(tensorfs_file_size(model, "raw/", &error), -1, TENSORFS_INVALID, "no file");
	FAILS(tensorfs_file_size(model, "raw/nothing", &error), -1, TENSORFS_NOT_FOUND, "nothing");
	FAILS(tensorfs_file_read(model, "README", -1, &byte, 1, &error), -1, TENSORFS_INVALID, "1 bytes from -1 on");
	FAILS(tensorfs_file_read(model, "README", 0, NULL, 1, &error), -1, TENSORFS_INVALID, "1 bytes from 0 on");
	FAILS(tensorfs_open(NULL, &error), NULL, TENSORFS_INVALID, "the model is NULL");
	FAILS(tensorfs_open("/nonexistent/model.gguf", &error), NULL, TENSORFS_NOT_FOUND, "/nonexistent/model.gguf");
	CHECK(tensorfs_get(model, "raw", "nothing", NULL) == NULL); /* nobody has to ask for the text */
	CHECK(tensorfs_close(NULL, &error) == TENSORFS_OK && tensorfs_release(NULL, &error) == TENSORFS_OK);
	CHECK(tensorfs_set_release(NULL, &error) == TENSORFS_OK && tensorfs_plan_release(NULL, &error) == TENSORFS_OK);
	tensorfs_error_free(NULL);

	tensorfs_load_options load = {.size = sizeof load};
	load.size = 4;
	FAILS(tensorfs_load(model, refs, 0, &load, &error), NULL, TENSORFS_INVALID, "its size is 4");
	load.size = sizeof load, load.cache = (tensorfs_cache_mode)9;
	FAILS(tensorfs_load(model, refs, 0, &load, &error), NULL, TENSORFS_INVALID, "cache mode 9");
	load.cache = TENSORFS_CACHE_READ, load.workers = -1;
	FAILS(tensorfs_load(model, refs, 0, &load, &error), NULL, TENSORFS_INVALID, "-1 workers");

	/* Options of version 1.0, and a part of them. */
	tensorfs_open_options older = {.size = offsetof(tensorfs_open_options, remote)};
	older.device = TENSORFS_DEVICE_HOST, older.remote = 1;
	FAILS(tensorfs_open_with("hf:no/model@at-all", &older, &error), NULL, TENSORFS_NOT_FOUND, "no/model");
	older.size -= 8;
	FAILS(tensorfs_open_with("/nonexistent", &older, &error), NULL, TENSORFS_INVALID, "set it to sizeof");

	/* Options of a later version: what is not known must be 0. */
	struct { tensorfs_open_options known; uint64_t more; } later = {{.size = sizeof later}, 0};
	later.known.device = TENSORFS_DEVICE_HOST;
	tensorfs_loader *other = tensorfs_open_with("/nonexistent", &later.known, &error);
	FAILS(other, NULL, TENSORFS_NOT_FOUND, "/nonexistent");
	later.more = 1;
	FAILS(tensorfs_open_with("/nonexistent", &later.known, &error), NULL, TENSORFS_INVALID, "does not know");
	later.known.size = sizeof later.known, later.known.device = (tensorfs_device_kind)9;
	FAILS(tensorfs_open_with("/nonexistent", &later.known, &error), NULL, TENSORFS_INVALID, "device 9");
	later.known.device = TENSORFS_DEVICE_HOST, later.known.metal_device = &later;
	FAILS(tensorfs_open_with("/nonexistent", &later.known, &error), NULL, TENSORFS_INVALID, "MTLDevice");
	later.known.metal_device = NULL, later.known.n_views = 2;
	FAILS(tensorfs_open_with("/nonexistent", &later.known, &error), NULL, TENSORFS_INVALID, "2 views");
	later.known.n_views = 0, later.known.n_lora = 3;
	FAILS(tensorfs_open_with("/nonexistent", &later.known, &error), NULL, TENSORFS_INVALID, "3 lora");
	later.known.n_lora = 0, later.known.n_options = 1;
	FAILS(tensorfs_open_with("/nonexistent", &later.known, &error), NULL, TENSORFS_INVALID, "1 options");
	later.known.n_options = 0;

	/* Options of version 1.3 have none. */
	later.known.options = (const tensorfs_string *)8, later.known.n_options = 1;
	later.known.size = offsetof(tensorfs_open_options, options);
	FAILS(tensorfs_open_with("/nonexistent", &later.known, &error), NULL, TENSORFS_NOT_FOUND, "/nonexistent");
	later.known.options = NULL, later.known.n_options = 0, later.known.size = sizeof later.known;
#ifndef __APPLE__
	later.known.device = TENSORFS_DEVICE_METAL, later.known.n_views = 0;
	FAILS(tensorfs_open_with("/nonexistent", &later.known, &error), NULL, TENSORFS_NO_DEVICE, "TENSORFS_DEVICE_HOST");
#endif
}

int main(int argc, char **argv) {
	CHECK(argc > 1);
	CHECK(tensorfs_version() == TENSORFS_VERSION);
	tensorfs_open_options options = {.size = sizeof options};
	options.device = TENSORFS_DEVICE_HOST;
	tensorfs_string adapters[8];
	options.lora = adapters;
	while (argc > 2 && strncmp(argv[2], "--lora=", 7) == 0 && options.n_lora < 8) {
		adapters[options.n_lora++] = argv[2] + 7;
		argc--, argv[2] = argv[1], argv++;
	}
	tensorfs_loader *model = tensorfs_open_with(argv[1], &options, &error);
	CHECK(model != NULL);
	const tensorfs_device *device = tensorfs_get_device(model, &error);
	CHECK(device && device == tensorfs_get_device(model, &error));
	CHECK(device->kind == TENSORFS_DEVICE_HOST && device->handle == NULL && device->page_size >= 4096 && device->max_buffer_length > 0 && device->name[0]);
	const tensorfs_model *about = tensorfs_get_model(model, &error);
	CHECK(about != NULL);
	printf("model %s %s %s\n", about->format, about->architecture, about->layout);
	size_t n = 0;
	const tensorfs_string *views = tensorfs_views(model, &n, &error);
	CHECK(views && views[n] == NULL);
	printf("views");
	for (size_t i = 0; i < n; i++)
		printf(" %s", views[i]);
	printf("\n");
	for (int v = 2; v < argc; v++)
		view(model, argv[v]);
	files(model, "");
	mistakes(model);

	pthread_t threads[4];
	for (int i = 0; i < 4; i++)
		CHECK(pthread_create(&threads[i], NULL, thread, model) == 0);
	for (int i = 0; i < 4; i++)
		CHECK(pthread_join(threads[i], NULL) == 0);

	CHECK(tensorfs_close(model, &error) == TENSORFS_OK);
	FAILS(tensorfs_close(model, &error), TENSORFS_INVALID, TENSORFS_INVALID, "closed");
	FAILS(tensorfs_views(model, NULL, &error), NULL, TENSORFS_INVALID, "closed");
	FAILS(tensorfs_get_private(model, "raw", "x", &error), NULL, TENSORFS_INVALID, "closed");
	FAILS(tensorfs_read(model, "raw", "x", 0, 0, NULL, 0, &error), TENSORFS_INVALID, TENSORFS_INVALID, "closed");
	close_under_calls(argv[1]);
	return 0;
}
