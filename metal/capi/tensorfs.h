/*
 * tensorfs.h: the tensors of a mounted model, as memory and as Metal buffers.
 *
 *     char *error = NULL;
 *     tensorfs_loader *model = tensorfs_open("/mnt/model", &error);
 *     const tensorfs_tensor *q = tensorfs_get(model, "f16", "layers.0.attention.q.weight", &error);
 *     ... q->data, q->bytes, or q->buffer and q->offset on a Mac ...
 *     tensorfs_release(q, &error);
 *     tensorfs_close(model, &error);
 *
 * Functions that can fail take `char **error`: where they fail and it is not
 * NULL, *error is one line of text, to be freed with free(). Where they succeed
 * *error is not touched. All functions may be called by any thread at any time,
 * except with what was released or closed.
 */
#ifndef TENSORFS_H
#define TENSORFS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A mounted model. */
typedef struct tensorfs_loader tensorfs_loader;

/* A part of a tensor's bytes, such as the scales after the codes. */
typedef struct tensorfs_section {
	const char *name;  /* "weights", "scales", "biases" */
	const char *dtype; /* "U32", "F16" */
	uint64_t offset;   /* from data */
	uint64_t bytes;
} tensorfs_section;

/* A tensor. All pointers are valid until it is released. */
typedef struct tensorfs_tensor {
	const void *data; /* first byte; reading it gives SIGBUS if the mount is lost */
	uint64_t bytes;

	void *buffer;    /* id<MTLBuffer>, not retained for the caller; NULL without Metal */
	uint64_t offset; /* of the tensor in buffer */
	int copied;      /* 1 where the device declined the mapping: the bytes are a copy */

	const char *dtype; /* of ggml ("Q4_K") or safetensors ("BF16") */
	int engine_dtype;  /* ggml's number; 99 to 102 for MLX (docs/engines.md); -1 without one */
	size_t rank;
	const int64_t *shape; /* row-major */

	size_t n_sections; /* 0 where the bytes are one section */
	const tensorfs_section *sections;

	const char *quant_mode; /* "affine", "mxfp4", ...; NULL where the bytes say all */
	int quant_bits;
	int quant_group_size;

	const char *file; /* that the bytes are mapped from */
} tensorfs_tensor;

/* The device that makes the buffers. Sizes are 0 where not known. */
typedef struct tensorfs_device {
	const char *kind; /* "metal" or "host" */
	const char *name;
	uint64_t page_size;
	uint64_t max_buffer_length;
	uint64_t recommended_memory;
	int unified_memory;
} tensorfs_device;

/* Called after each part that was read, by one thread at a time. */
typedef void (*tensorfs_progress)(int64_t done, int64_t total, void *context);

/* Opens the model that is mounted at a directory; NULL on failure. */
tensorfs_loader *tensorfs_open(const char *mountpoint, char **error);

/* Describes the device. The result is valid until tensorfs_close. */
const tensorfs_device *tensorfs_device_of(tensorfs_loader *loader);

/* Names the tensors of a view, sorted; NULL where there is no such view. The
 * result is valid until tensorfs_close. */
const char *const *tensorfs_names(tensorfs_loader *loader, const char *view, size_t *count, char **error);

/* Reads tensors of a view ahead, many parts at once. names is an array of count;
 * progress may be NULL. Returns 0, or -1 on failure. */
int tensorfs_prefetch(tensorfs_loader *loader, const char *view, const char *const *names, size_t count,
                      tensorfs_progress progress, void *context, char **error);

/* Maps a tensor of a view; NULL on failure. Asking again gives another
 * tensorfs_tensor with the same buffer. */
const tensorfs_tensor *tensorfs_get(tensorfs_loader *loader, const char *view, const char *name, char **error);

/* Releases a tensor. GPU work that was committed keeps the memory until it is
 * done. Returns 0, or -1 on failure. */
int tensorfs_release(const tensorfs_tensor *tensor, char **error);

/* Closes a model. While tensors of it are in use it fails, names them, and the
 * model stays open. Returns 0, or -1 on failure. */
int tensorfs_close(tensorfs_loader *loader, char **error);

#ifdef __cplusplus
}
#endif

#endif
