/*
 * fork [MODEL]: holds that in a child every function fails at once, also where the
 * parent has only loaded the library, and that the parent goes on.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

#define REFUSED(call, missing) FAILS(call, missing, TENSORFS_FORKED, "forked")

static void child(tensorfs_loader *m, const tensorfs_tensor *t, tensorfs_set *s) {
	alarm(60); /* ends it if it hangs */
	size_t n = 0;
	tensorfs_ref ref = {"raw", "x"};
	tensorfs_string name = "x";
	REFUSED(tensorfs_open("/nonexistent", &error), NULL);
	REFUSED(tensorfs_open_with("/nonexistent", NULL, &error), NULL);
	REFUSED(tensorfs_get_device(m, &error), NULL);
	REFUSED(tensorfs_get_model(m, &error), NULL);
	REFUSED(tensorfs_get_config(m, &error), NULL);
	REFUSED(tensorfs_views(m, &n, &error), NULL);
	REFUSED(tensorfs_names(m, "raw", &n, &error), NULL);
	REFUSED(tensorfs_count(m, "raw", &error), 0);
	REFUSED(tensorfs_has(m, "raw", "x", &error), 0);
	REFUSED(tensorfs_absent(m, "raw", "x", &error), NULL);
	REFUSED(tensorfs_info(m, "raw", "x", &error), NULL);
	REFUSED(tensorfs_meta_string(m, "x", name, &error), name);
	REFUSED(tensorfs_meta_int(m, "x", 5, &error), 5);
	REFUSED(tensorfs_meta_float(m, "x", 5.5, &error), 5.5);
	REFUSED(tensorfs_meta_bool(m, "x", 1, &error), 1);
	REFUSED(tensorfs_meta_strings(m, "x", &n, &error), NULL);
	REFUSED(tensorfs_meta_ints(m, "x", &n, &error), NULL);
	REFUSED(tensorfs_meta_floats(m, "x", &n, &error), NULL);
	REFUSED(tensorfs_get(m, "raw", "x", &error), NULL);
	REFUSED(tensorfs_get_private(m, "raw", "x", &error), NULL);
	REFUSED(tensorfs_get_fused(m, "raw", &name, 1, &error), NULL);
	REFUSED(tensorfs_read(m, "raw", "x", 0, 1, &n, 1, &error), TENSORFS_FORKED);
	REFUSED(tensorfs_files(m, "", &n, &error), NULL);
	REFUSED(tensorfs_file_size(m, "README", &error), -1);
	REFUSED(tensorfs_file_read(m, "README", 0, &n, 1, &error), -1);
	REFUSED(tensorfs_plan(m, &ref, 1, &error), NULL);
	REFUSED(tensorfs_plan_release(NULL, &error), TENSORFS_FORKED);
	REFUSED(tensorfs_load(m, &ref, 1, NULL, &error), NULL);
	REFUSED(tensorfs_set_get(s, "raw", "x", &error), NULL);
	REFUSED(tensorfs_set_residency(s, &error), NULL);
	REFUSED(tensorfs_set_release(s, &error), TENSORFS_FORKED);
	REFUSED(tensorfs_release(t, &error), TENSORFS_FORKED);
	REFUSED(tensorfs_close(m, &error), TENSORFS_FORKED);
	CHECK(tensorfs_open("/nonexistent", NULL) == NULL);
	CHECK(tensorfs_version() == TENSORFS_VERSION);
	/* What is mapped can be read. */
	unsigned sum = 0;
	for (uint64_t i = 0; t && i < t->info->bytes; i++)
		sum += ((const unsigned char *)t->data)[i];
	_exit(sum == 1 ? 2 : 0);
}

static void forked(tensorfs_loader *m, const tensorfs_tensor *t, tensorfs_set *s) {
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0)
		child(m, t, s);
	int status = 0;
	CHECK(waitpid(pid, &status, 0) == pid);
	if (status != 0)
		fprintf(stderr, "the child ended with %#x\n", status), exit(1);
}

int main(int argc, char **argv) {
	forked(NULL, NULL, NULL);
	CHECK(argc == 2);
	tensorfs_loader *m = tensorfs_open(argv[1], &error);
	CHECK(m != NULL);
	size_t n = 0;
	const tensorfs_string *names = tensorfs_names(m, "f16", &n, &error);
	CHECK(names != NULL && n > 0);
	tensorfs_ref ref = {"f16", names[0]};
	tensorfs_set *s = tensorfs_load(m, &ref, 1, NULL, &error);
	const tensorfs_tensor *t = tensorfs_get(m, "f16", names[0], &error);
	CHECK(s != NULL && t != NULL);
	for (int i = 0; i < 5; i++)
		forked(m, t, s);
	CHECK(tensorfs_release(t, &error) == TENSORFS_OK && tensorfs_set_release(s, &error) == TENSORFS_OK && tensorfs_close(m, &error) == TENSORFS_OK);
	return 0;
}
