/* What the programs in this directory share. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tensorfs.h>

static tensorfs_error *error;

/* die ends the program, which the test sees. */
static inline void die(const char *what) {
	fprintf(stderr, "%s: %s\n", what, error ? error->text : "(no error)");
	exit(1);
}

#define CHECK(what) ((what) ? (void)0 : die(#what))

/* fails holds that what was called before failed, with a status and a text of one
 * line that says something; and frees the error. */
static inline void fails(const char *call, tensorfs_status status, const char *text) {
	if (error == NULL || error->status != status || strstr(error->text, text) == NULL || strchr(error->text, '\n')) {
		fprintf(stderr, "%s: status %d and a text with \"%s\" were expected\n", call, (int)status, text);
		die(call);
	}
	tensorfs_error_free(error);
	error = NULL;
}

#define FAILS(call, missing, status, text) ((call) == (missing) ? fails(#call, status, text) : die(#call " did not fail"))
