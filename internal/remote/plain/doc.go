// Package plain finds models at addresses of the web, such as
// https://HOST/path/model.gguf: a file, with its siblings if it is one of a split
// model.
//
//	GET ADDRESS, Range: bytes=0-1048575    size, and what tells this version from others
//	GET ADDRESS, Range: bytes=..., If-Match: "ETAG"
//
// # Versions
//
// A file's version is its strong ETag and size, else its modification time. Without either
// it is private to this process and forgotten when it is closed. Each range asks for this
// version, and each answer is compared with it, because many servers do not check.
//
// The address of a file that was redirected to another server is kept for as long as
// that server takes it.
//
// # Servers without ranges
//
// A file of up to 64 MiB is taken as it comes. A larger one is refused, or brought
// into the cache first, if that was asked for.
//
// # Secrets
//
// A user's name and password, in the address or, for https, for its host in ~/.netrc
// (NETRC), go only to that server. They and the query of the address are not shown and not
// kept.
package plain
