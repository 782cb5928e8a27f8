// Package remote finds models on servers by name. Each protocol turns a name into a
// [Listing], which is pinned: the files, their sizes and identities, as they were
// when the name was looked up. A Listing is a source.FS, so parsers open it as they
// open a directory; its files come by ranges, through the cache.
//
//	hf:ORG/NAME[@REV]     remote/hub       a commit of a repository
//	ms:ORG/NAME[@REV]     remote/ms        a revision of a repository of ModelScope
//	ollama:NAME[:TAG]     remote/ollama    a manifest and its blobs
//	oci://HOST/REPO:TAG   remote/oci       an artifact and its layers
//	s3://BUCKET/KEY       remote/s3        objects
//	gs://BUCKET/KEY       remote/gs        objects of Google Cloud Storage
//	az://CONTAINER/BLOB   remote/az        blobs of Azure
//	https://HOST/PATH     remote/plain     a file
package remote
