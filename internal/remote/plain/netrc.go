package plain

import (
	"net/url"
	"strings"

	"github.com/tensorfs/tensorfs/internal/environ"
	"github.com/tensorfs/tensorfs/internal/source"
)

// maxNetrc bounds the file.
const maxNetrc = 1 << 20

// netrc returns what ~/.netrc, or the file that NETRC names, contains for exactly this host, nil if it
// contains nothing.
func netrc(host string, env environ.Env) *url.Userinfo {
	path, err := environ.Netrc(env)
	if err != nil {
		return nil
	}
	b, err := source.ReadRegular(path, maxNetrc)
	if err != nil {
		return nil
	}
	return findLogin(string(b), host)
}

// findLogin finds a host in the text of such a file:
//
//	machine HOST login USER password PASSWORD
//
// in any number of lines. What is said of others by "default" does not count.
func findLogin(text, host string) *url.Userinfo {
	var user, password string
	found := false
	words := netrcWords(text)
	for i := 0; i < len(words); i++ {
		value := ""
		if i+1 < len(words) {
			value = words[i+1]
		}
		switch words[i] {
		case "machine", "default":
			if found {
				return url.UserPassword(user, password)
			}
			if words[i] == "default" {
				return nil // it is the last
			}
			found = strings.EqualFold(value, host)
			i++
		case "login", "account", "password":
			if found && words[i] == "login" {
				user = value
			} else if found && words[i] == "password" {
				password = value
			}
			i++
		}
	}
	if !found {
		return nil
	}
	return url.UserPassword(user, password)
}

// netrcWords splits the text of such a file. Macros, from macdef to an empty line,
// and comments are left out.
func netrcWords(text string) (words []string) {
	macro := false
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if macro {
			macro = len(fields) > 0
			continue
		}
		for i, w := range fields {
			if strings.HasPrefix(w, "#") && i == 0 {
				break
			}
			if w == "macdef" {
				macro = true
				break
			}
			words = append(words, strings.Trim(w, `"`))
		}
	}
	return words
}
