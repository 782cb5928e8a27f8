// Package ms finds models of ModelScope by name: a repository and a revision, which is a branch,
// a tag or a commit; "" is master.
//
//	GET ENDPOINT/api/v1/models/ORG/NAME/repo/files?Revision=REV&Recursive=True    the files
//	GET ENDPOINT/api/v1/models/ORG/NAME/repo?Revision=COMMIT&FilePath=PATH        the bytes of a file
//
// MODELSCOPE_ENDPOINT, or MODELSCOPE_DOMAIN, names another server. MODELSCOPE_API_TOKEN is sent to
// it, and to nothing that it redirects to.
//
// The list states the SHA-256 and the commit of each file, not of the repository. A file is pinned by
// both. It was written by the public documentation and source of ModelScope's own client, and was
// not tried with the server itself.
package ms
