/* What shim.c and the Go files share. */
#ifndef TENSORFS_SHIM_H
#define TENSORFS_SHIM_H

#include "tensorfs.h"

/* The structs of opaque pointers: only their addresses mean something. */
struct tensorfs_loader { char unused; };
struct tensorfs_set { char unused; };

/* Puts an error with a text of n bytes into *out, unless out is NULL. */
void tensorfsgo_fail(tensorfs_error **out, int status, const char *text, size_t n);

#endif
