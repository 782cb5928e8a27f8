// Package tree lays a model out as the directory that users see:
//
//	README  config.json  index.json  metadata/  metadata.json  source/
//	views/                                     index.json of each view alone
//	raw/  packed/  f16/  ...                   a directory for each view
//	gguf/                                      whole-model files, made when they are looked at
//
// [New] takes a model, as formats.Open returns it, and gives the entries that
// fs.Mount serves:
//
//	m, err := formats.Open("model.gguf")
//	...
//	defer m.Close()
//	server, err := fs.Mount(tree.New(m, tree.Options{}).Root, "/mnt/m", fs.Options{ModTime: m.ModTime})
//	...
//	server.Wait()
//
// Nothing is read from tensors here and nothing is rendered ahead of time: the
// entries of a view are made when they are looked up, and the texts (index.json,
// metadata) when they are read.
package tree
