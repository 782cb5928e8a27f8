//go:build cgo

/*
 * The functions of tensorfs.h. In a child that fork() made none of them may enter
 * Go, whose other threads are not there: it would wait for them for ever. So each
 * looks first, and only then calls the exported Go function of its name.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "shim.h"

#include "_cgo_export.h"

static volatile sig_atomic_t forked;

static void in_child(void) { forked = 1; }

/* A child hangs even where the library was loaded and nothing else was done. */
__attribute__((constructor)) static void watch_forks(void) { pthread_atfork(NULL, NULL, in_child); }

void tensorfsgo_fail(tensorfs_error **out, int status, const char *text, size_t n) {
	if (out == NULL)
		return;
	tensorfs_error *e = malloc(sizeof *e + n + 1);
	if (e == NULL) {
		static const tensorfs_error no_memory = {TENSORFS_NO_MEMORY, "tensorfs: out of memory"};
		*out = (tensorfs_error *)&no_memory;
		return;
	}
	char *copy = (char *)(e + 1);
	memcpy(copy, text, n);
	copy[n] = 0;
	e->status = status;
	e->text = copy;
	*out = e;
}

void tensorfs_error_free(tensorfs_error *e) {
	/* The text of what was allocated follows it. */
	if (e != NULL && e->text == (char *)(e + 1))
		free(e);
}

int tensorfs_version(void) { return TENSORFS_VERSION; }

static int refuse(tensorfs_error **error) {
	static const char text[] =
	    "tensorfs: this process was forked from one that uses tensorfs, and cannot use it itself; "
	    "start a new program (exec), in Python's multiprocessing with the start method 'spawn' or 'forkserver'";
	tensorfsgo_fail(error, TENSORFS_FORKED, text, sizeof text - 1);
	return TENSORFS_FORKED;
}

/* FUNCTION defines a function of tensorfs.h that returns missing in a child. */
#define FUNCTION(result, name, parameters, arguments, missing) \
	result tensorfs_##name parameters {                        \
		if (forked) {                                          \
			refuse(error);                                     \
			return missing;                                    \
		}                                                      \
		return tensorfsgo_##name arguments;                    \
	}

/* MODEL is a FUNCTION whose first parameter is a loader. */
#define MODEL(result, name, parameters, arguments, missing) \
	FUNCTION(result, name, (tensorfs_loader * p, UNPACK parameters tensorfs_error **error), (p, UNPACK arguments error), missing)
#define UNPACK(...) __VA_ARGS__

#define TEXT const char *
#define STRING tensorfs_string /* may be NULL */
#define STRINGS const tensorfs_string *

FUNCTION(tensorfs_loader *, open_with, (TEXT model, const tensorfs_open_options *options, tensorfs_error **error), (model, (void *)options, error), NULL)

tensorfs_loader *tensorfs_open(const char *model, tensorfs_error **error) { return tensorfs_open_with(model, NULL, error); }

MODEL(tensorfs_status, close, (), (), TENSORFS_FORKED)
MODEL(const tensorfs_device *, get_device, (), (), NULL)
MODEL(const tensorfs_model *, get_model, (), (), NULL)
MODEL(const tensorfs_config *, get_config, (), (), NULL)
MODEL(STRINGS, views, (size_t *count, ), (count, ), NULL)
MODEL(STRINGS, names, (STRING view, size_t *count, ), (view, count, ), NULL)
MODEL(size_t, count, (STRING view, ), (view, ), 0)
MODEL(int, has, (STRING view, TEXT name, ), (view, name, ), 0)
MODEL(STRING, absent, (STRING view, TEXT name, ), (view, name, ), NULL)
MODEL(const tensorfs_tensor_info *, info, (STRING view, TEXT name, ), (view, name, ), NULL)
MODEL(STRING, meta_string, (TEXT key, STRING missing, ), (key, missing, ), missing)
MODEL(int64_t, meta_int, (TEXT key, int64_t missing, ), (key, missing, ), missing)
MODEL(double, meta_float, (TEXT key, double missing, ), (key, missing, ), missing)
MODEL(int, meta_bool, (TEXT key, int missing, ), (key, missing, ), missing)
MODEL(STRINGS, meta_strings, (TEXT key, size_t *count, ), (key, count, ), NULL)
MODEL(const int64_t *, meta_ints, (TEXT key, size_t *count, ), (key, count, ), NULL)
MODEL(const double *, meta_floats, (TEXT key, size_t *count, ), (key, count, ), NULL)
MODEL(const tensorfs_tensor *, get, (STRING view, TEXT name, ), (view, name, ), NULL)
MODEL(const tensorfs_tensor *, get_private, (STRING view, TEXT name, ), (view, name, ), NULL)
MODEL(const tensorfs_tensor *, get_fused, (STRING view, STRINGS names, size_t count, ), (view, (STRING *)names, count, ), NULL)
MODEL(const tensorfs_load_plan *, plan, (const tensorfs_ref *refs, size_t count, ), ((tensorfs_ref *)refs, count, ), NULL)
MODEL(tensorfs_set *, load, (const tensorfs_ref *refs, size_t count, const tensorfs_load_options *options, ), ((tensorfs_ref *)refs, count, (void *)options, ), NULL)
MODEL(tensorfs_status, read, (STRING view, TEXT name, int64_t first, int64_t end, void *memory, uint64_t n, ), (view, name, first, end, memory, n, ), TENSORFS_FORKED)
MODEL(STRINGS, files, (TEXT directory, size_t *count, ), (directory, count, ), NULL)
MODEL(int64_t, file_size, (TEXT path, ), (path, ), -1)
MODEL(int64_t, file_read, (TEXT path, int64_t offset, void *memory, uint64_t n, ), (path, offset, memory, n, ), -1)

FUNCTION(tensorfs_status, release, (const tensorfs_tensor *tensor, tensorfs_error **error), ((void *)tensor, error), TENSORFS_FORKED)
FUNCTION(tensorfs_status, plan_release, (const tensorfs_load_plan *plan, tensorfs_error **error), ((void *)plan, error), TENSORFS_FORKED)
FUNCTION(const tensorfs_tensor *, set_get, (tensorfs_set * set, STRING view, TEXT name, tensorfs_error **error), (set, view, name, error), NULL)
FUNCTION(void *, set_residency, (tensorfs_set * set, tensorfs_error **error), (set, error), NULL)
FUNCTION(tensorfs_status, set_release, (tensorfs_set * set, tensorfs_error **error), (set, error), TENSORFS_FORKED)
