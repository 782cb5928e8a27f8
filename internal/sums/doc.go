// Package sums reads and writes lists of SHA-256 digests as sha256sum does.
//
//	b5bb9d80...  raw/output.weight        text, or * before the name: the same on every system of today
//	\b5bb9d80...  a\nb                    with a backslash before it, \\ \n \r stand for themselves in the name
//	SHA256 (raw/output.weight) = b5bb...  of sha256sum --tag
//	# a comment
//
// A list may come from a stranger: a [Scanner] holds one line at a time, of a
// bounded length, and knows nothing of files.
package sums
