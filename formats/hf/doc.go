// Package hf opens models in the layout of Hugging Face: a directory with
// config.json and safetensors files, as transformers and MLX write it.
//
// [OpenFS] takes such a directory, [OpenFileFS] a single safetensors file. Package
// hub finds directories by the names of the hub.
//
// # Which files are the model
//
//   - model.safetensors.index.json decides, if it and all files it names exist;
//   - otherwise model.safetensors, if it exists;
//   - otherwise all model*.safetensors, if there is no index;
//   - without any of these, the same of diffusion_pytorch_model, as the parts of a
//     diffusers pipeline have it.
//
// An index that names a missing file, or a tensor that its file lacks, is an
// error. Tensors that the index forgets are shown, with a warning. File names in
// an index are plain names; source.FS decides how far links in the directory may
// lead: the cache is built of links. adapters.safetensors,
// consolidated.safetensors, *.bin and *.gguf beside the model are not part of it.
//
// Small files beside the weights belong to the model by their kind, and of its
// folders 1_Pooling/config.json, as sentence-transformers number their modules,
// and additional_chat_templates/*.jinja.
//
// OpenFile returns what Open returns for the directory if the file is the whole model by
// these rules and config.json is beside it. Otherwise the file is opened on its own: the
// format is "safetensors", the architecture is unknown, dimensions come from shapes, and
// quantised tensors are raw bytes, because the file does not describe how to read them.
//
// # Metadata
//
//	config.KEY             top-level keys of config.json
//	generation_config.KEY  the keys of generation_config.json
//	hf_quant_config.KEY    the keys of hf_quant_config.json
//	index.KEY              the index's own "metadata"
//	safetensors.KEY        "__metadata__" of the weight files; safetensors.FILE.KEY
//	                       where a file differs from those before it
//	tensorfs.quantization  the scheme of quantisation, as recognised
//
// NaN and infinities, which Python writes into JSON, become strings, and of a
// repeated key the last value counts. No JSON file costs more than a multiple of
// its size to read, and one whose top has more keys than a model can need is
// refused; see internal/jsonobj.
//
// # Quantisation
//
// The tensors decide what is quantised, config.json supplies the parameters, and both must
// agree: see schemes.go for the table of schemes, and mlx.go, fp8.go and packings.go for
// the rules by which modules become numbers, which package packing unpacks. If anything is
// unknown or disagrees, the stored bytes are shown and Opaque gives the reason. Nothing is
// guessed, and stored values are never corrected: the rows of gpt-oss's gate_up alternate
// between gate and up as they do in the file.
package hf
