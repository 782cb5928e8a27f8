// Package ollama finds models in registries of Ollama models, such as Ollama's own and the
// Hugging Face Hub (hf.co/USER/REPO:QUANT).
//
//	GET https://HOST/v2/NAMESPACE/MODEL/manifests/TAG          JSON, see formats/ollama
//	GET https://HOST/v2/NAMESPACE/MODEL/blobs/sha256:HEX       a blob, or where it is
//
// [Open] requests the manifest, and returns a listing that looks like a store of Ollama
// with this one model in it. Blobs are identified by their digests, so a blob that models
// share is fetched once. The manifest is kept in the cache for offline use.
//
// There is no login: private models of Ollama's registry are for 'ollama pull'. The Hub
// gets HF_TOKEN, see remote/hub, and no other registry does. A registry on this machine is
// asked by http.
package ollama
