/* Maps a tensor of a mounted model: engine MOUNT VIEW NAME */
#include <stdio.h>
#include <stdlib.h>
#include "tensorfs.h"

int main(int argc, char **argv) {
	char *error = NULL;
	if (argc != 4) {
		fprintf(stderr, "usage: %s MOUNT VIEW NAME\n", argv[0]);
		return 2;
	}
	tensorfs_loader *model = tensorfs_open(argv[1], &error);
	const tensorfs_tensor *t = model ? tensorfs_get(model, argv[2], argv[3], &error) : NULL;
	if (t == NULL) {
		fprintf(stderr, "%s\n", error);
		free(error);
		return 1;
	}
	printf("%s %s [", argv[3], t->dtype);
	for (size_t i = 0; i < t->rank; i++)
		printf(i ? ", %lld" : "%lld", (long long)t->shape[i]);
	unsigned long long sum = 0;
	for (uint64_t i = 0; i < t->bytes; i++)
		sum += ((const unsigned char *)t->data)[i];
	printf("] %llu bytes, sum %llu\n", (unsigned long long)t->bytes, sum);

	if (tensorfs_release(t, &error) || tensorfs_close(model, &error)) {
		fprintf(stderr, "%s\n", error);
		return 1;
	}
	return 0;
}
