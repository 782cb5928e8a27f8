package environ

import (
	"fmt"
	"os"
	"os/user"
	"regexp"
	"strings"
	"sync"
)

// variable is a reference that Python's os.path.expandvars replaces.
var variable = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$(?:(\w+)|\{([^}]*)\})`) })

// Expand returns a path as Python's os.path.expandvars(os.path.expanduser(path)) does: ~
// and ~USER at its beginning, then $NAME and ${NAME} anywhere. A variable that is not set
// stays as it is written, and so does ~USER of an unknown user. The error is that ~ has no
// meaning, because the home directory is unknown.
func Expand(path string, env Env) (string, error) {
	path, err := ExpandHome(path, env)
	return expandVariables(path, env), err
}

// ExpandHome replaces ~ or ~USER at the beginning of a path, as Python's os.path.expanduser does.
func ExpandHome(path string, env Env) (string, error) {
	if path == "" || path[0] != '~' {
		return path, nil
	}
	name, _, _ := strings.Cut(path[1:], "/")
	rest := path[1+len(name):]
	home, err := "", error(nil)
	if name == "" {
		home, err = homeDir(env)
	} else if u, lookup := user.Lookup(name); lookup == nil {
		home = u.HomeDir
	}
	switch {
	case err != nil:
		return "", err
	case home == "":
		return path, nil
	case rest != "":
		home = strings.TrimRight(home, "/")
	}
	return home + rest, nil
}

func expandVariables(path string, env Env) string {
	return variable().ReplaceAllStringFunc(path, func(reference string) string {
		name := strings.Trim(reference[1:], "{}")
		value := env(name)
		if _, set := os.LookupEnv(name); value == "" && !set {
			return reference
		}
		return value
	})
}

// homeDir returns HOME, or else the home directory that the system has for the user.
func homeDir(env Env) (string, error) {
	if home := env("HOME"); home != "" {
		return home, nil
	}
	u, err := user.Current()
	if err == nil && u.HomeDir != "" {
		return u.HomeDir, nil
	}
	return "", fmt.Errorf("the home directory is not known; set HOME")
}
