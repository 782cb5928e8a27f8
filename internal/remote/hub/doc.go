// Package hub finds the files of models on the Hugging Face Hub.
//
//	GET ENDPOINT/api/models/ORG/NAME/revision/REV             which commit that is
//	GET ENDPOINT/api/models/ORG/NAME/tree/COMMIT?recursive=true   its files, 1,000 a page
//	GET ENDPOINT/ORG/NAME/resolve/COMMIT/PATH                 a file, or where it is
//
// [Open] asks for the first two, and returns a listing that is pinned to the
// commit: what is named main tomorrow does not change what is open. Which of the
// files is the model, the caller says. A file is resolved when the first of its
// bytes is needed, once for all of them: the Hub limits how often that is done, and
// the address that it redirects to is good for an hour.
//
// Files are known by the SHA-256 of their content or, small ones, by git's id of
// it. One whose content another repository of the same Hub had before is not fetched
// again, nor one that is in the cache of Hugging Face's own programs; of another
// server's only one that is known to have the digest.
//
// The commit and the files of it are kept in the cache. A commit that is known is
// not asked for its files again, and offline nothing is asked at all. Where the Hub does
// not answer, a name stands for the commit of the last time.
//
//	HF_ENDPOINT                     the Hub, https://huggingface.co
//	HF_TOKEN                        sent to the endpoint, and to nothing that it redirects to
//
// Package environ finds the token and the cache of Hugging Face's own programs as those programs do.
package hub
