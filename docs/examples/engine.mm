// Runs a kernel on a tensor of a mounted model without copying it.
// clang++ -fobjc-arc engine.mm libtensorfs.a -framework Metal -framework Foundation -framework CoreGraphics
#import <Metal/Metal.h>
#include "tensorfs.h"

static void run(id<MTLDevice> gpu, id<MTLComputePipelineState> kernel, const char *mount) {
	char *error = NULL;
	tensorfs_loader *model = tensorfs_open(mount, &error);
	const tensorfs_tensor *w =
	    model ? tensorfs_get(model, "packed", "layers.0.attention.q.weight", &error) : NULL;
	if (!w) {
		NSLog(@"%s", error);
		free(error);
		return;
	}
	id<MTLCommandBuffer> work = [[gpu newCommandQueue] commandBuffer];
	id<MTLComputeCommandEncoder> encoder = [work computeCommandEncoder];
	[encoder setComputePipelineState:kernel];

	// w->offset is where the tensor begins in the buffer: one buffer covers many.
	id<MTLBuffer> buffer = (__bridge id<MTLBuffer>)w->buffer;
	[encoder setBuffer:buffer offset:w->offset atIndex:0];
	for (size_t i = 1; i < w->n_sections; i++) // scales and biases, after the codes
		[encoder setBuffer:buffer offset:w->offset + w->sections[i].offset atIndex:i];
	[encoder dispatchThreads:MTLSizeMake(w->shape[0], 1, 1) threadsPerThreadgroup:MTLSizeMake(64, 1, 1)];
	[encoder endEncoding];

	// A committed command buffer keeps the memory, so the tensor may be released here.
	[work commit];
	tensorfs_release(w, NULL);
	[work waitUntilCompleted];
	tensorfs_close(model, NULL);
}
