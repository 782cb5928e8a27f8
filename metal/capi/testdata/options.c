/*
 * options FILE MODEL OPTION...: the sum of a file of the model's tree with options, or the status and the
 * text of the error.
 */
#include <stdio.h>
#include <stdlib.h>
#include <inttypes.h>

#include "tensorfs.h"

int main(int argc, char **argv) {
	tensorfs_error *error = NULL;
	tensorfs_open_options options = {.size = sizeof options};
	options.device = TENSORFS_DEVICE_HOST;
	options.options = (const tensorfs_string *)&argv[3], options.n_options = (size_t)argc - 3;
	tensorfs_loader *model = tensorfs_open_with(argv[2], &options, &error);
	int64_t size = model ? tensorfs_file_size(model, argv[1], &error) : -1;
	if (size < 0) {
		printf("%d %s\n", error->status, error->text);
		tensorfs_error_free(error);
		return 0;
	}
	unsigned char *memory = malloc((size_t)size + 1);
	if (tensorfs_file_read(model, argv[1], 0, memory, (uint64_t)size, &error) != size)
		return 1;
	uint64_t h = 14695981039346656037u;
	for (int64_t i = 0; i < size; i++)
		h = (h ^ memory[i]) * 1099511628211u;
	printf("%" PRId64 " %016" PRIx64 "\n", size, h);
	free(memory);
	return tensorfs_close(model, &error);
}
