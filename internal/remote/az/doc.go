// Package az finds models in Azure Blob Storage, by its REST API.
//
//	az://CONTAINER/BLOB                                 a blob, with the other files of a split GGUF model
//	az://CONTAINER/PREFIX/                              all blobs whose names begin with it, as a directory
//	az://ACCOUNT.blob.core.windows.net/CONTAINER/BLOB   the same with its account
//	az://CONTAINER@ACCOUNT.dfs.core.windows.net/BLOB    the same
//
// Where and who: see settings.go. A SAS token may follow a name behind "?".
//
// A blob is pinned by its ETag, which changes with each change of the blob. Where the server states
// an MD5 of the whole blob, complete files are compared with it.
//
// What it does not do: write, read snapshots and other versions, and list more than one model's
// worth of blobs.
package az
