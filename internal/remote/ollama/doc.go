// Package ollama finds models in registries of Ollama models, of which Ollama's own
// is one and the Hugging Face Hub another (hf.co/USER/REPO:QUANT).
//
//	GET https://HOST/v2/NAMESPACE/MODEL/manifests/TAG          JSON, see formats/ollama
//	GET https://HOST/v2/NAMESPACE/MODEL/blobs/sha256:HEX       a blob, or where it is
//
// [Open] asks for the manifest, and returns a listing that looks like a store of
// Ollama with this one model in it. Blobs are known by their digests, so that those
// which models share are fetched once. The manifest is kept in the cache, for those
// who are offline.
//
// Nobody logs in: private models of Ollama's registry are for 'ollama pull'. The Hub
// gets HF_TOKEN, see remote/hub, and no other registry does. A registry on this
// machine is asked by http.
package ollama
