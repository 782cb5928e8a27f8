/*
 * check MOUNT VIEW...: prints every tensor of the views through tensorfs.h, one a
 * line, for comparison with what the tree holds; then the ways to fail.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tensorfs.h"

static uint64_t fnv(const unsigned char *p, uint64_t n) {
	uint64_t h = 14695981039346656037u;
	for (uint64_t i = 0; i < n; i++)
		h = (h ^ p[i]) * 1099511628211u;
	return h;
}

static void die(const char *what, char *error) {
	fprintf(stderr, "%s: %s\n", what, error ? error : "(no error text)");
	exit(1);
}

static void print(const char *view, const char *name, const tensorfs_tensor *t) {
	printf("%s/%s %s %d [", view, name, t->dtype, t->engine_dtype);
	for (size_t i = 0; i < t->rank; i++)
		printf(i ? ",%" PRId64 : "%" PRId64, t->shape[i]);
	printf("] %" PRIu64 " %016" PRIx64 " copied %d", t->bytes, fnv(t->data, t->bytes), t->copied);
	if (t->quant_mode)
		printf(" %s/%d/%d", t->quant_mode, t->quant_bits, t->quant_group_size);
	for (size_t i = 0; i < t->n_sections; i++)
		printf(" %s:%s:%" PRIu64 "+%" PRIu64, t->sections[i].name, t->sections[i].dtype, t->sections[i].offset, t->sections[i].bytes);
	printf("\n");
	/* A device's buffer begins on a page, offset bytes before the data. */
	if (!t->copied && ((uintptr_t)t->data - t->offset) % 4096 != 0)
		die(name, "the buffer does not begin on a page");
	if (t->file == NULL || t->file[0] != '/')
		die(name, "no file");
}

static void progress(int64_t done, int64_t total, void *context) {
	if (done > total)
		die("progress", "done exceeds total");
	*(int64_t *)context = done;
}

int main(int argc, char **argv) {
	char *error = NULL;
	tensorfs_loader *model = tensorfs_open(argv[1], &error);
	if (!model)
		die("open", error);
	const tensorfs_device *device = tensorfs_device_of(model);
	printf("device %s, pages of %" PRIu64 "\n", device->kind, device->page_size);

	for (int v = 2; v < argc; v++) {
		size_t n = 0;
		const char *const *names = tensorfs_names(model, argv[v], &n, &error);
		if (!names)
			die("names", error);
		int64_t done = -1;
		if (tensorfs_prefetch(model, argv[v], names, n, progress, &done, &error))
			die("prefetch", error);
		printf("prefetched %" PRId64 "\n", done);
		for (size_t i = 0; i < n; i++) {
			const tensorfs_tensor *t = tensorfs_get(model, argv[v], names[i], &error);
			const tensorfs_tensor *again = tensorfs_get(model, argv[v], names[i], &error);
			if (!t || !again)
				die(names[i], error);
			if (t->data != again->data || t->buffer != again->buffer || t->offset != again->offset)
				die(names[i], "asking twice gave two buffers");
			print(argv[v], names[i], t);
			if (tensorfs_close(model, &error) == 0)
				die(names[i], "closed while in use");
			if (strstr(error, names[i]) == NULL)
				die("the error of close does not name the tensor", error);
			free(error);
			error = NULL;
			if (tensorfs_release(t, &error) || tensorfs_release(again, &error))
				die(names[i], error);
		}
	}

	if (tensorfs_names(model, "nothing", NULL, &error))
		die("names", "a view that is not there has names");
	printf("error: %s\n", error);
	free(error);
	if (tensorfs_get(model, "f16", "nothing", &error))
		die("get", "a tensor that is not there was found");
	printf("error: %s\n", error);
	free(error);
	const char *missing[] = {"nothing"};
	if (tensorfs_prefetch(model, "f16", missing, 1, NULL, NULL, &error) != -1)
		die("prefetch", "a tensor that is not there was read");
	printf("error: %s\n", error);
	free(error);
	error = NULL;
	/* Nobody has to ask for the text. */
	/* A caller that did not look whether open succeeded. */
	if (tensorfs_get(NULL, "f16", "x", &error) || error == NULL || strstr(error, "NULL") == NULL)
		die("get", "a loader that is NULL was used");
	free(error);
	error = NULL;
	if (tensorfs_names(NULL, "f16", NULL, &error) || error == NULL || tensorfs_prefetch(NULL, "f16", missing, 1, NULL, NULL, NULL) != -1 || tensorfs_device_of(NULL))
		die("names", "a loader that is NULL was used");
	free(error);
	error = NULL;
	if (tensorfs_get(model, "f16", "nothing", NULL) || tensorfs_open("/nonexistent/tree", NULL))
		die("get", "found");
	if (tensorfs_close(model, &error))
		die("close", error);
	return 0;
}
