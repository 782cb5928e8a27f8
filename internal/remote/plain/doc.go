// Package plain finds models at addresses of the web, such as
// https://HOST/path/model.gguf: a file, with its siblings if it is one of a split
// model.
//
//	GET ADDRESS, Range: bytes=0-1048575    size, and what tells this version from others
//	GET ADDRESS, Range: bytes=..., If-Match: "ETAG"
//
// # Versions
//
// A file is known by its strong ETag and size, else by when it was modified last,
// else it is nobody else's and forgotten when it is closed. Each range asks for this
// version, and each answer is compared with it, because many servers do not look.
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
// (NETRC), go to that server alone. They and what follows ? in the address are not
// shown and not kept.
package plain
