// Package opendir writes below directories that other users may change at any time.
//
//	d, err := opendir.Make("/srv/ollama/models", 0o755)
//	blobs, err := d.Follow("blobs", 0o755)
//	stage, err := d.Private(".tensorfs")
//	err = stage.Link("file", blobs, "sha256-...")
//
// A [Dir] is an open directory. Its methods take the name of one entry and never follow a
// link, so whatever others rename or exchange, nothing outside of the directory is read,
// made, given away or removed. What needs several steps is done in a directory of
// [Dir.Private], which only this user can change, and gets its name in one step.
//
// Links in a path are followed under a rule: a link that another user could have made leads
// only to a directory of that user. See [Open].
//
// As root, [Make] and [Dir.Follow] give each directory that they make to the owner of the one
// above, because a service that runs as its own user could not use it otherwise. [Dir.Give]
// does the same for a file.
package opendir
