// Package hub finds the files of models on the Hugging Face Hub.
//
//	GET ENDPOINT/api/models/ORG/NAME/revision/REV             which commit that is
//	GET ENDPOINT/api/models/ORG/NAME/tree/COMMIT?recursive=true   its files, 1,000 a page
//	GET ENDPOINT/ORG/NAME/resolve/COMMIT/PATH                 a file, or where it is
//
// [Open] asks for the first two, and returns a listing that is pinned to the commit: if
// main moves tomorrow, what is open does not change. The caller selects the model among the
// files. A file is resolved when the first of its bytes is needed, once for all of them:
// the Hub limits how often that is done, and the address that it redirects to is valid for
// an hour.
//
// Files are known by the SHA-256 of their content or, small ones, by git's id of
// it. One whose content another repository of the same Hub had before is not fetched
// again, nor one that is in the cache of Hugging Face's own programs; of another
// server's only one that is known to have the digest.
//
// The commit and its files are kept in the cache. The files of a known commit are not
// requested again, and offline no request is sent at all. If the Hub does not answer, a
// name resolves to its last commit.
//
//	HF_ENDPOINT                     the Hub, https://huggingface.co
//	HF_TOKEN                        sent to the endpoint, and to nothing that it redirects to
//
// Package environ finds the token and the cache of Hugging Face's own programs as those programs do.
package hub
