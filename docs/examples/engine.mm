// Runs a kernel on a tensor of a model without copying it.
// clang++ -std=c++17 -fobjc-arc engine.mm -framework Metal -framework Foundation
//   $(pkg-config --cflags --libs tensorfs)
#import <Metal/Metal.h>
#include <tensorfs.h>

static void run(id<MTLCommandQueue> queue, id<MTLComputePipelineState> kernel, const char *path) {
	tensorfs_error *error = NULL;
	tensorfs_open_options options = {};
	options.size = sizeof options;
	options.device = TENSORFS_DEVICE_METAL;
	options.metal_device = (__bridge void *)queue.device; // a buffer belongs to one GPU
	tensorfs_loader *model = tensorfs_open_with(path, &options, &error);

	// All weights at once: converted with all cores, within what the GPU may have, kept resident.
	tensorfs_ref refs[] = {{"packed", "layers.0.attention.q.weight"}};
	tensorfs_load_options load = {};
	load.size = sizeof load;
	load.resident = 1;
	tensorfs_set *weights = model ? tensorfs_load(model, refs, 1, &load, &error) : NULL;
	const tensorfs_tensor *w = weights ? tensorfs_set_get(weights, refs[0].view, refs[0].name, &error) : NULL;
	if (!w) {
		NSLog(@"%s", error->text);
		tensorfs_error_free(error);
		tensorfs_set_release(weights, NULL);
		tensorfs_close(model, NULL);
		return;
	}
	if (@available(macOS 15, *))
		if (void *set = tensorfs_set_residency(weights, NULL))
			[queue addResidencySet:(__bridge id<MTLResidencySet>)set];

	id<MTLCommandBuffer> work = [queue commandBuffer];
	id<MTLComputeCommandEncoder> encoder = [work computeCommandEncoder];
	[encoder setComputePipelineState:kernel];

	// w->buffer_offset is where the tensor begins in the buffer: one buffer covers many.
	id<MTLBuffer> buffer = (__bridge id<MTLBuffer>)w->buffer;
	[encoder setBuffer:buffer offset:w->buffer_offset atIndex:0];
	for (size_t i = 1; i < w->info->n_sections; i++) // scales and biases, after the codes
		[encoder setBuffer:buffer offset:w->buffer_offset + w->info->sections[i].offset atIndex:i];
	[encoder dispatchThreads:MTLSizeMake(w->info->shape[0], 1, 1) threadsPerThreadgroup:MTLSizeMake(64, 1, 1)];
	[encoder endEncoding];
	[work commit];
	[work waitUntilCompleted];

	if (@available(macOS 15, *))
		if (void *set = tensorfs_set_residency(weights, NULL))
			[queue removeResidencySet:(__bridge id<MTLResidencySet>)set];
	tensorfs_set_release(weights, NULL);
	tensorfs_close(model, NULL);
}
