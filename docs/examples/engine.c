/* Uses a tensor of a model: engine MODEL VIEW NAME */
#include <stdio.h>
#include <tensorfs.h>

int main(int argc, char **argv) {
	if (argc != 4) {
		fprintf(stderr, "usage: %s MODEL VIEW NAME\n", argv[0]);
		return 2;
	}
	tensorfs_error *error = NULL;
	tensorfs_loader *model = tensorfs_open(argv[1], &error);
	const tensorfs_tensor *t = model ? tensorfs_get(model, argv[2], argv[3], &error) : NULL;
	if (t == NULL) {
		fprintf(stderr, "%s\n", error->text);
		int absent = error->status == TENSORFS_ABSENT;
		tensorfs_error_free(error);
		tensorfs_close(model, NULL);
		return absent ? 3 : 1;
	}
	printf("%s %s [", argv[3], t->info->dtype);
	for (size_t i = 0; i < t->info->rank; i++)
		printf(i ? ", %lld" : "%lld", (long long)t->info->shape[i]);
	unsigned long long sum = 0;
	for (uint64_t i = 0; i < t->info->bytes; i++)
		sum += ((const unsigned char *)t->data)[i];
	printf("] %llu bytes, sum %llu\n", (unsigned long long)t->info->bytes, sum);

	if (tensorfs_release(t, &error) || tensorfs_close(model, &error)) {
		fprintf(stderr, "%s\n", error->text);
		tensorfs_error_free(error);
		return 1;
	}
	return 0;
}
