package environ

import "github.com/tensorfs/tensorfs/internal/source"

// Netrc returns the path of the file with users and passwords of servers, as Python's requests finds it: NETRC, else
// ~/.netrc, else ~/_netrc. In NETRC only ~ is expanded.
func Netrc(env Env) (string, error) {
	if path := env("NETRC"); path != "" {
		return ExpandHome(path, env)
	}
	path, err := ExpandHome("~/.netrc", env)
	if err != nil {
		return "", err
	}
	if other, err := ExpandHome("~/_netrc", env); err == nil && !source.Exists(path) && source.Exists(other) {
		return other, nil
	}
	return path, nil
}
