/*
 * tensorfs.h: the tensors of a model, as memory and as Metal buffers. Version 1.4.
 *
 *     tensorfs_error *error = NULL;
 *     tensorfs_loader *model = tensorfs_open("model.gguf", &error);
 *     const tensorfs_tensor *q = tensorfs_get(model, NULL, "layers.0.attention.q.weight", &error);
 *     ... q->data, q->info->bytes, or on a Mac q->buffer and q->buffer_offset ...
 *     tensorfs_release(q, &error);
 *     tensorfs_close(model, &error);
 *
 * ERRORS. Functions that can fail take `tensorfs_error **error` last. Where they
 * fail and it is not NULL, *error is a new error with a status and one line of
 * text, to be freed with tensorfs_error_free. Where they succeed, *error is not
 * touched, so set it to NULL first. What a function returns on failure (NULL, 0,
 * a default) is said beside it; functions that return a tensorfs_status return
 * that of the error. NULL where a pointer must not be, options of a wrong size,
 * and what was closed or released already are errors, as far as the library can
 * know: memory that is freed may be in use again for something else.
 *
 * VERSIONS. Structs that functions return are never allocated by callers, and
 * later versions only append fields to them, as they do to options. Options begin
 * with `size`, which is sizeof of the struct: a library that is newer than the
 * caller takes what the caller does not know as 0, and one that is older refuses
 * options that it does not know, unless they are 0. Strings are UTF-8.
 *
 * LIFETIMES. Beside each function that returns a pointer it is said how long the
 * pointer is valid, with all that it points to. A description (of the device, the
 * model, views, names, files, tensors, metadata) is valid until tensorfs_close has
 * succeeded, and asking again returns the same pointer: copy what is needed for
 * longer. A tensor is valid until it is released, the tensors of a set until the set
 * is, and their info as long as they are. GPU work that was committed keeps the
 * memory until it is done. tensorfs_close fails while tensors, sets or calls of the
 * model are in use.
 *
 * ALIGNMENT. A tensor may begin anywhere in its buffer: bind it with
 * buffer_offset, which is a multiple of the size of an element and of 4, or of
 * offset_align. Memory of TENSORFS_ORIGIN_MEMORY begins at a multiple of 256 at
 * least. Sections begin where they are in the tensor, not on pages. Do not write to
 * the memory, except to that of tensorfs_get_private: in a mapping a write is a
 * fault. After the end of a tensor there are another one or zeros, and nothing where
 * a file ends on a page (see tail_pad).
 *
 * THREADS. All functions may be called by any thread at any time. A call with a
 * loader that another thread closes is either finished before the model is closed,
 * and tensorfs_close fails with TENSORFS_IN_USE, or fails itself. What it returned
 * is valid as said above, so do not read descriptions while another thread may
 * close the model, or tensors while it may release them. A progress function is
 * called by one thread at a time, which may be any; it cannot close the loader.
 *
 * SIGNALS. The library contains the runtime of Go. When it is loaded it installs
 * handlers for SIGBUS, SIGSEGV, SIGFPE, SIGPIPE and SIGURG among others, with
 * SA_ONSTACK, and passes faults of other code on to the handlers that were there
 * before. A program that installs handlers of its own later must use SA_ONSTACK
 * and pass on what it does not know. If the model is truncated or its mount is
 * lost, touching a page that is not in memory yet raises SIGBUS, as with any
 * mapped file. Replace a model by renaming a new file over it, never in place.
 *
 * FORK. A child that fork() made cannot use the library: there every function that
 * can fail does so at once, with TENSORFS_FORKED. It may read memory that is mapped
 * already, and exec. In Python's multiprocessing choose 'spawn' or 'forkserver'.
 *
 * LINKING. libtensorfs.a and another archive that Go made cannot be linked into one
 * program. Take the shared library there. It is never unloaded: dlclose does nothing.
 */
#ifndef TENSORFS_H
#define TENSORFS_H

#include <stddef.h>
#include <stdint.h>

#define TENSORFS_VERSION_MAJOR 1
#define TENSORFS_VERSION_MINOR 4
#define TENSORFS_VERSION_PATCH 0
#define TENSORFS_VERSION \
	(TENSORFS_VERSION_MAJOR * 1000000 + TENSORFS_VERSION_MINOR * 1000 + TENSORFS_VERSION_PATCH)

/* Pointers that may be NULL are marked for clang and Swift; others may not be. */
#if defined(__clang__)
#define TENSORFS_NULLABLE _Nullable
#define TENSORFS_NONNULL _Nonnull
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wnullability-extension"
#pragma clang assume_nonnull begin
#else
#define TENSORFS_NULLABLE
#define TENSORFS_NONNULL
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A string that may be NULL. */
typedef const char *TENSORFS_NULLABLE tensorfs_string;

/* Why a function failed, for programs; the text is for people. */
typedef enum tensorfs_status {
	TENSORFS_OK = 0,
	TENSORFS_FAILED = 1,      /* something else: see the text */
	TENSORFS_INVALID = 2,     /* an argument makes no sense, or is closed or released */
	TENSORFS_ABSENT = 3,      /* the model has no such view or tensor */
	TENSORFS_NOT_FOUND = 4,   /* there is no such model, or a file of it is missing */
	TENSORFS_MALFORMED = 5,   /* the model breaks the rules of its format */
	TENSORFS_UNSUPPORTED = 6, /* the model is sound, and this library or system cannot serve it */
	TENSORFS_CHANGED = 7,     /* the model changed, or its mount is gone: open it again */
	TENSORFS_NO_DEVICE = 8,   /* there is no Metal, and the host was not asked for */
	TENSORFS_NO_MEMORY = 9,   /* it would exceed max_memory or what the device has */
	TENSORFS_CANCELLED = 10,  /* the progress function said so */
	TENSORFS_IN_USE = 11,     /* tensors or sets must be released first, or calls must return */
	TENSORFS_FORKED = 12      /* this process is a child of the one that loaded the library */
} tensorfs_status;

typedef struct tensorfs_error {
	tensorfs_status status;
	const char *text; /* one line */
} tensorfs_error;

/* A model that is open, and a set of tensors that were loaded together. */
typedef struct tensorfs_loader tensorfs_loader;
typedef struct tensorfs_set tensorfs_set;

/* What makes the buffers. */
typedef enum tensorfs_device_kind {
	TENSORFS_DEVICE_DEFAULT = 0, /* Metal on macOS, where none is an error; the host elsewhere */
	TENSORFS_DEVICE_HOST = 1,    /* memory of this process; buffers are NULL */
	TENSORFS_DEVICE_METAL = 2
} tensorfs_device_kind;

/* Where the bytes of a tensor are. */
typedef enum tensorfs_origin {
	TENSORFS_ORIGIN_MODEL = 1, /* mapped from the model's own file: clean pages, which processes share */
	TENSORFS_ORIGIN_CACHE = 2, /* the same from a file of the cache, an exported tree or a mount */
	TENSORFS_ORIGIN_MEMORY = 3 /* read or converted into memory of the device, which this process has */
} tensorfs_origin;

/* What tensorfs_load does with converted tensors. */
typedef enum tensorfs_cache_mode {
	TENSORFS_CACHE_READ = 0, /* map them if the cache has them, else convert them into memory */
	TENSORFS_CACHE_OFF = 1,
	TENSORFS_CACHE_READ_WRITE = 2 /* convert them into the cache and map them */
} tensorfs_cache_mode;

/* A tensor by its view ("packed", "f16", "fused", ...; NULL is packed) and name. */
typedef struct tensorfs_ref {
	tensorfs_string view;
	const char *name;
} tensorfs_ref;

typedef struct tensorfs_open_options {
	size_t size; /* sizeof(tensorfs_open_options) */

	/* With metal_device, the id<MTLDevice> of the engine's queue (retained), the
	 * buffers are for that GPU; with NULL they are for the system's default one. */
	tensorfs_device_kind device;
	void *TENSORFS_NULLABLE metal_device;

	const tensorfs_string *TENSORFS_NULLABLE views; /* an array of those wanted; NULL: all that a mount has */
	size_t n_views;

	uint64_t offset_align; /* of buffer_offset; 0: the size of an element, and 4 at least */
	uint64_t tail_pad;     /* bytes after every tensor that may be read */
	uint64_t max_memory;   /* of the buffers, in bytes; 0: what the device or the system has */

	tensorfs_string cache_dir; /* of converted tensors; NULL: what `tensorfs cache dir` prints */
	uint64_t cache_limit;      /* bytes that they may take there; 0: a quarter of what is free */

	tensorfs_string i2s; /* how BitNet's I2_S codes lie, as --i2s of the commands; NULL: by the size, or as a tree was made */
	int tree_only;       /* 1: of a mounted or exported tree, never map the model's own files */

	/* Since 1.1. */
	int remote;         /* 1: a name may be of a model on a server, whose bytes come when they are read */
	int offline;        /* 1: servers are not asked: only what the cache of remote models has */
	int64_t cache_size; /* bytes that remote models may take on the disk; 0: a tenth of it, 100 GB at most; below 0: none are kept */

	/* Since 1.2. */
	const tensorfs_string *TENSORFS_NULLABLE lora; /* an array of adapters to apply, in order, as --lora of the commands: "DIR:0.5" */
	size_t n_lora;

	/* Since 1.4. An array of the commands' options about gguf/, hf/ and mlx/, without their dashes:
	 * "gguf-type=q4_k_m", "pure", "tensor-type=PATTERN=TYPE", "tensor-types-from=FILE", "requantise",
	 * "imatrix=FILE", "mlx-bits=4", "mlx-group=64", "mlx-mode=MODE", "mlx-recipe=RECIPE",
	 * "mlx-device=cpu", "dequantise", "mmproj=FILE", "mmproj=none", "set=KEY=VALUE", "set=KEY=@FILE", "unset=KEY". They have the commands' checks and messages.
	 * The views "hf" and "mlx", and the files of tensorfs_files, follow them. */
	const tensorfs_string *TENSORFS_NULLABLE options;
	size_t n_options;
} tensorfs_open_options;

/* Called with bytes while a set is loaded. Another result than 0 cancels. */
typedef int (*tensorfs_progress)(uint64_t done, uint64_t total, void *TENSORFS_NULLABLE context);

typedef struct tensorfs_load_options {
	size_t size; /* sizeof(tensorfs_load_options) */
	tensorfs_cache_mode cache;
	int workers;  /* 0: one a core, and 4 at least */
	int resident; /* 1: keep it resident for the GPU (macOS 15), see tensorfs_set_residency */
	TENSORFS_NULLABLE tensorfs_progress progress;
	void *TENSORFS_NULLABLE context; /* for progress */
} tensorfs_load_options;

/* A part of a tensor's bytes, such as the scales after the codes. */
typedef struct tensorfs_section {
	const char *name;  /* "weights", "scales", "biases" */
	const char *dtype; /* "U32", "F16" */
	uint64_t offset;   /* from the first byte of the tensor */
	uint64_t bytes;
} tensorfs_section;

/* What is known of a tensor without touching its bytes. */
typedef struct tensorfs_tensor_info {
	const char *view;
	const char *name;
	const char *dtype; /* of ggml ("Q4_K") or safetensors ("BF16") */
	int engine_dtype;  /* ggml's number; 99 to 102 for MLX (docs/engines.md); -1 without one */
	uint64_t bytes;
	size_t rank;
	const int64_t *shape; /* row-major: the last dimension is contiguous */

	size_t n_sections; /* 0 where the bytes are one section */
	const tensorfs_section *sections;

	tensorfs_string quant_mode; /* "affine", "mxfp4", ...; NULL where the bytes say all */
	int quant_bits;
	int quant_group_size;

	/* Since 1.1. */
	tensorfs_string source_name; /* in the model's files; NULL where it is no UTF-8 */
} tensorfs_tensor_info;

/* A tensor. */
typedef struct tensorfs_tensor {
	const void *data; /* info->bytes of them, as the CPU sees them */
	void *TENSORFS_NULLABLE buffer; /* id<MTLBuffer>, not retained for the caller; NULL on the host */
	uint64_t buffer_offset;         /* of the tensor in buffer */
	tensorfs_origin origin;
	const char *file; /* that the bytes are from; "" where it is none of this machine */
	const tensorfs_tensor_info *info;
} tensorfs_tensor;

/* The device that makes the buffers. Sizes are 0 where not known. */
typedef struct tensorfs_device {
	tensorfs_device_kind kind;
	const char *name;
	void *TENSORFS_NULLABLE handle; /* id<MTLDevice>; NULL of the host */
	uint64_t registry_id;           /* Metal's, the same in all processes */
	uint64_t page_size;
	uint64_t max_buffer_length;
	uint64_t recommended_memory;
	int unified_memory;
} tensorfs_device;

/* What the model is. */
typedef struct tensorfs_model {
	const char *format; /* "gguf", "safetensors", ... */
	const char *path;
	const char *architecture; /* "llama", ... */
	const char *layout;       /* how rows of attention.q and attention.k are ordered: "gguf" or "hf" */
} tensorfs_model;

/* The model's dimensions, a field for each of config.json (docs/tree.md).
 * What is not known is -1, NaN or NULL. */
typedef struct tensorfs_config {
	tensorfs_string architecture;
	int64_t dim;
	int64_t n_layers;
	int64_t n_heads;
	int64_t n_kv_heads;
	int64_t head_dim;
	int64_t v_head_dim;
	int64_t q_dim;
	int64_t kv_dim;
	int64_t ffn_dim;
	int64_t vocab_size;
	int64_t max_seq_len;
	double norm_eps;
	double rope_theta;
	int64_t rope_dim;
	tensorfs_string rope_scaling_type;
	double rope_scaling_factor;
	int64_t rope_orig_ctx;
	int64_t sliding_window;
	int64_t sliding_window_pattern; /* -1 also where only the list has it */
	double rope_local_theta;
	int64_t tie_embeddings; /* 1 or 0 */
	double attn_logit_softcap;
	double final_logit_softcap;
	int64_t n_experts;
	int64_t n_experts_used;
	int64_t n_experts_shared;
	int64_t expert_ffn_dim;
	int64_t shared_expert_ffn_dim;
	int64_t n_dense_layers;
	int64_t n_nextn_layers;
	int64_t q_lora_rank;
	int64_t kv_lora_rank;
	int64_t qk_nope_head_dim;
	int64_t mla_v_head_dim;
	int64_t ssm_conv_kernel;
	int64_t ssm_inner;
	int64_t ssm_state;
	int64_t ssm_dt_rank;
	int64_t ssm_groups;
	int64_t enc_n_layers;
	int64_t enc_n_heads;
	int64_t enc_dim;
	int64_t enc_ffn_dim;
	int64_t enc_max_len;
	int64_t n_mels;
	int64_t quant_bits;
	int64_t quant_group_size;
	tensorfs_string quant_mode;
	tensorfs_string layout;

	/* A value for each layer, where the model has them; NULL where it does not. */
	const int64_t *TENSORFS_NULLABLE n_heads_per_layer;
	size_t n_heads_per_layer_count;
	const int64_t *TENSORFS_NULLABLE n_kv_heads_per_layer;
	size_t n_kv_heads_per_layer_count;
	const int64_t *TENSORFS_NULLABLE ffn_dim_per_layer;
	size_t ffn_dim_per_layer_count;
	const int64_t *TENSORFS_NULLABLE sliding_window_pattern_per_layer; /* 1 is a window */
	size_t sliding_window_pattern_per_layer_count;
	const int64_t *TENSORFS_NULLABLE head_dim_per_layer;
	size_t head_dim_per_layer_count;
} tensorfs_config;

/* A stretch of a file that one buffer covers. */
typedef struct tensorfs_window {
	const char *file;
	uint64_t offset; /* in file */
	uint64_t bytes;
	tensorfs_origin origin;
} tensorfs_window;

/* What loading would take, in bytes. */
typedef struct tensorfs_load_plan {
	uint64_t model; /* by origin */
	uint64_t cache;
	uint64_t memory;
	uint64_t need;  /* bytes of all buffers that count against the limit */
	uint64_t limit; /* 0 for none */
	size_t n_windows;
	const tensorfs_window *windows;
} tensorfs_load_plan;

#define TENSORFS_ERROR tensorfs_error *TENSORFS_NULLABLE *TENSORFS_NULLABLE error

/* The version of the library: TENSORFS_VERSION of the header that it was built with. */
int tensorfs_version(void);

/* Frees an error, with its text; NULL does nothing. */
void tensorfs_error_free(tensorfs_error *TENSORFS_NULLABLE error);

/* Opens a model, of this machine unless options say otherwise: a GGUF file, a safetensors file or directory, a
 * name such as hf:ORG/NAME or ollama:NAME, a directory that `tensorfs export` wrote,
 * or one where a model is mounted. NULL on failure. Valid until tensorfs_close has
 * succeeded. Nothing that the caller passes to a function, here or below, is kept. */
tensorfs_loader *TENSORFS_NULLABLE tensorfs_open(const char *model, TENSORFS_ERROR);

/* The same with options; NULL for none. */
tensorfs_loader *TENSORFS_NULLABLE tensorfs_open_with(const char *model,
    const tensorfs_open_options *TENSORFS_NULLABLE options, TENSORFS_ERROR);

/* Closes a model. While tensors or sets of it are in use, or other threads call
 * functions with it, it fails, says so, and the model stays open. */
tensorfs_status tensorfs_close(tensorfs_loader *TENSORFS_NULLABLE loader, TENSORFS_ERROR);

/* What describes a model and what is in it; NULL on failure. Valid until
 * tensorfs_close; the device's handle as well. */
const tensorfs_device *TENSORFS_NULLABLE tensorfs_get_device(tensorfs_loader *loader,
    TENSORFS_ERROR);
const tensorfs_model *TENSORFS_NULLABLE tensorfs_get_model(tensorfs_loader *loader, TENSORFS_ERROR);
const tensorfs_config *TENSORFS_NULLABLE tensorfs_get_config(tensorfs_loader *loader,
    TENSORFS_ERROR);

/* The names of the views, and of the tensors of a view, sorted; the array ends
 * with NULL. count may be NULL. NULL on failure, as where there is no such view.
 * Valid until tensorfs_close, the array and its strings. */
const tensorfs_string *TENSORFS_NULLABLE tensorfs_views(tensorfs_loader *loader,
    size_t *TENSORFS_NULLABLE count, TENSORFS_ERROR);
const tensorfs_string *TENSORFS_NULLABLE tensorfs_names(tensorfs_loader *loader,
    tensorfs_string view, size_t *TENSORFS_NULLABLE count, TENSORFS_ERROR);

/* How many tensors a view has, and whether it has one (1 or 0). What is not there
 * is no failure; 0 on failure. */
size_t tensorfs_count(tensorfs_loader *loader, tensorfs_string view, TENSORFS_ERROR);
int tensorfs_has(tensorfs_loader *loader, tensorfs_string view, const char *name, TENSORFS_ERROR);

/* Why a view lacks a tensor; NULL if it has it, and on failure. Valid until
 * tensorfs_close. */
tensorfs_string tensorfs_absent(tensorfs_loader *loader, tensorfs_string view, const char *name,
    TENSORFS_ERROR);

/* Describes a tensor without mapping it; NULL on failure. Valid until tensorfs_close,
 * with its strings, shape and sections. */
const tensorfs_tensor_info *TENSORFS_NULLABLE tensorfs_info(tensorfs_loader *loader,
    tensorfs_string view, const char *name, TENSORFS_ERROR);

/* Metadata of the model, by the keys of metadata.json ("tokenizer.ggml.model").
 * Where the key is missing or its value is of another kind, that is no failure:
 * they return the default, or NULL. A string ends at a NUL byte of it. What they
 * return is valid until tensorfs_close; a default is the caller's own. */
tensorfs_string tensorfs_meta_string(tensorfs_loader *loader, const char *key,
    tensorfs_string missing, TENSORFS_ERROR);
int64_t tensorfs_meta_int(tensorfs_loader *loader, const char *key, int64_t missing,
    TENSORFS_ERROR);
double tensorfs_meta_float(tensorfs_loader *loader, const char *key, double missing,
    TENSORFS_ERROR);
int tensorfs_meta_bool(tensorfs_loader *loader, const char *key, int missing, TENSORFS_ERROR);
const tensorfs_string *TENSORFS_NULLABLE tensorfs_meta_strings(tensorfs_loader *loader,
    const char *key, size_t *TENSORFS_NULLABLE count, TENSORFS_ERROR);
const int64_t *TENSORFS_NULLABLE tensorfs_meta_ints(tensorfs_loader *loader, const char *key,
    size_t *TENSORFS_NULLABLE count, TENSORFS_ERROR);
const double *TENSORFS_NULLABLE tensorfs_meta_floats(tensorfs_loader *loader, const char *key,
    size_t *TENSORFS_NULLABLE count, TENSORFS_ERROR);

/* Maps a tensor, or converts it into memory; NULL on failure. Asking again gives
 * another tensorfs_tensor with the same buffer. Valid until tensorfs_release, with
 * its data, buffer, file and info. */
const tensorfs_tensor *TENSORFS_NULLABLE tensorfs_get(tensorfs_loader *loader, tensorfs_string view,
    const char *name, TENSORFS_ERROR);

/* The same in memory of the caller's own, which may be written to: a file is mapped
 * copy on write, everything else read or converted into new memory. Neither the file
 * nor the cache nor any other tensor sees what is written. Asking again gives another
 * one. Valid until tensorfs_release. Since 1.3. */
const tensorfs_tensor *TENSORFS_NULLABLE tensorfs_get_private(tensorfs_loader *loader,
    tensorfs_string view, const char *name, TENSORFS_ERROR);

/* The same as tensorfs_get for the rows of several tensors, one after the other: as q, k and v for
 * one multiplication. They must agree in all but their rows. Valid until
 * tensorfs_release. */
const tensorfs_tensor *TENSORFS_NULLABLE tensorfs_get_fused(tensorfs_loader *loader,
    tensorfs_string view, const tensorfs_string *TENSORFS_NONNULL names, size_t count, TENSORFS_ERROR);

/* Reads rows of a tensor, [first, end) of its first dimension, into memory of the
 * caller: n is what they take, bytes / shape[0] each, and the tensor's bytes where
 * it has no dimensions. Nothing is kept. All cores take part in what has to be
 * converted. Of a tensor with several sections only all rows can be had.
 * Since 1.1. */
tensorfs_status tensorfs_read(tensorfs_loader *loader, tensorfs_string view, const char *name,
    int64_t first, int64_t end, void *memory, uint64_t n, TENSORFS_ERROR);

/* The files that a mount of the model has, without one: README, config.json,
 * metadata.json, hf/ and gguf/ and mlx/ for other programs, all else but the views
 * that were not asked for. A directory is named as "hf" or "hf/", the tree itself
 * as ""; names in it are sorted, and those of directories end with a slash. The
 * array ends with NULL; count may be NULL. NULL on failure. Valid until
 * tensorfs_close, the array and its strings. Since 1.1. */
const tensorfs_string *TENSORFS_NULLABLE tensorfs_files(tensorfs_loader *loader,
    const char *directory, size_t *TENSORFS_NULLABLE count, TENSORFS_ERROR);

/* How long a file is; -1 on failure. Since 1.1. */
int64_t tensorfs_file_size(tensorfs_loader *loader, const char *path, TENSORFS_ERROR);

/* Reads up to n bytes of a file from an offset on, and returns how many there were:
 * fewer only at its end. -1 on failure. Since 1.1. */
int64_t tensorfs_file_read(tensorfs_loader *loader, const char *path, int64_t offset, void *memory,
    uint64_t n, TENSORFS_ERROR);

/* Releases a tensor of tensorfs_get, tensorfs_get_private or tensorfs_get_fused;
 * NULL does nothing. */
tensorfs_status tensorfs_release(const tensorfs_tensor *TENSORFS_NULLABLE tensor, TENSORFS_ERROR);

/* What loading these tensors would take; reads nothing. NULL on failure. Valid until
 * tensorfs_plan_release, with its windows, also after the model is closed. */
const tensorfs_load_plan *TENSORFS_NULLABLE tensorfs_plan(tensorfs_loader *loader,
    const tensorfs_ref *refs, size_t count, TENSORFS_ERROR);
tensorfs_status tensorfs_plan_release(const tensorfs_load_plan *TENSORFS_NULLABLE plan,
    TENSORFS_ERROR);

/* Loads tensors with all cores: what stands in files is mapped and read ahead, the
 * rest is converted into few large buffers. Fails before any work where they do
 * not fit. options may be NULL. NULL on failure, and then nothing is left. Valid
 * until tensorfs_set_release. */
tensorfs_set *TENSORFS_NULLABLE tensorfs_load(tensorfs_loader *loader, const tensorfs_ref *refs,
    size_t count, const tensorfs_load_options *TENSORFS_NULLABLE options, TENSORFS_ERROR);

/* A tensor of a set; NULL on failure. It is the set's: do not release it. Valid until
 * tensorfs_set_release. */
const tensorfs_tensor *TENSORFS_NULLABLE tensorfs_set_get(tensorfs_set *set, tensorfs_string view,
    const char *name, TENSORFS_ERROR);

/* id<MTLResidencySet> for the engine's command queue (addResidencySet:), owned by
 * the set; NULL where it has none, and on failure. Valid until tensorfs_set_release. */
void *TENSORFS_NULLABLE tensorfs_set_residency(tensorfs_set *set, TENSORFS_ERROR);

/* Releases a set with its tensors; NULL does nothing. */
tensorfs_status tensorfs_set_release(tensorfs_set *TENSORFS_NULLABLE set, TENSORFS_ERROR);

#undef TENSORFS_ERROR

#ifdef __cplusplus
}
#endif

#if defined(__clang__)
#pragma clang assume_nonnull end
#pragma clang diagnostic pop
#endif

#endif
