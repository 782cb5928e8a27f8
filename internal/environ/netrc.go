package environ

import "cmp"

// Netrc returns the path of the file with users and passwords of servers, as Python's requests finds it: NETRC,
// or ~/.netrc.
func Netrc(env Env) (string, error) { return Expand(cmp.Or(env("NETRC"), "~/.netrc"), env) }
