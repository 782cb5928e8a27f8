// Package server runs a file system of a model or a library: in the background, started
// again as a process of its own, or in the foreground.
//
// A command fills in a [Spec] and calls [Spec.Start], or [Spec.Serve] in the server itself.
// Serve opens the log, asks the caller for the [Content], mounts it with one of [Backends]
// and answers until it is unmounted. Tokens and names that contain secrets are not on the
// server's command line: it reads them from its standard input or from a pipe.
package server
