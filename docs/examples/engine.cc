// Loads all that an engine takes of a model at once: engine MODEL
#include <tensorfs.h>

#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

// Error becomes an exception where a function has failed.
struct Error {
	tensorfs_error *e = nullptr;
	~Error() { tensorfs_error_free(e); }
	template <class T> T check(T result) {
		if (e) throw std::runtime_error(e->text);
		return result;
	}
};

struct Close {
	void operator()(tensorfs_loader *p) const { tensorfs_close(p, nullptr); }
	void operator()(tensorfs_set *p) const { tensorfs_set_release(p, nullptr); }
};

static int progress(uint64_t done, uint64_t total, void *last) {
	*static_cast<bool *>(last) = done == total;
	return 0; // 1 would cancel
}

static void run(const char *path) {
	Error error;
	std::unique_ptr<tensorfs_loader, Close> model(error.check(tensorfs_open(path, &error.e)));
	const tensorfs_config *config = error.check(tensorfs_get_config(model.get(), &error.e));
	std::printf("%s, %lld layers\n", config->architecture, (long long)config->n_layers);

	// Everything in packed/, but q, k and v of a layer as the one matrix that fused/ has of them.
	std::vector<tensorfs_ref> refs;
	size_t n = 0;
	const tensorfs_string *names = error.check(tensorfs_names(model.get(), nullptr, &n, &error.e));
	for (size_t i = 0; i < n; i++) {
		std::string name = names[i], q = ".attention.q.weight";
		size_t at = name.find(q);
		std::string qkv = name.substr(0, at) + ".attention.qkv.weight";
		if (at != std::string::npos && error.check(tensorfs_has(model.get(), "fused", qkv.c_str(), &error.e)))
			refs.push_back({"fused", error.check(tensorfs_info(model.get(), "fused", qkv.c_str(), &error.e))->name});
		else
			refs.push_back({nullptr, names[i]});
	}

	bool complete = false;
	tensorfs_load_options options = {};
	options.size = sizeof options;
	options.progress = progress;
	options.context = &complete;
	std::unique_ptr<tensorfs_set, Close> weights(
	    error.check(tensorfs_load(model.get(), refs.data(), refs.size(), &options, &error.e)));
	uint64_t bytes = 0;
	for (const tensorfs_ref &r : refs)
		bytes += error.check(tensorfs_set_get(weights.get(), r.view, r.name, &error.e))->info->bytes;
	std::printf("%zu tensors, %llu bytes, %s\n", refs.size(), (unsigned long long)bytes, complete ? "complete" : "incomplete");
}

int main(int argc, char **argv) try {
	if (argc != 2) throw std::runtime_error(std::string("usage: ") + argv[0] + " MODEL");
	run(argv[1]);
} catch (const std::exception &e) {
	std::fprintf(stderr, "%s\n", e.what());
	return 1;
}
