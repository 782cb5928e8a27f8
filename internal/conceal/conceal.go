// Package conceal removes secrets from names of models and from messages: the user, the
// password, the query and the fragment of an address. Every program of this project that shows
// a name goes through it.
package conceal

import (
	"net/url"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs"
)

// URL returns an address without its user, password, query and fragment.
func URL(u *url.URL) string {
	s := (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
	if u.RawQuery != "" {
		s += "?..."
	}
	return s
}

// Name returns the name of a model, as the user wrote it, without secrets. If an address cannot
// be parsed, only its scheme is left, since any part of the rest may be a password. A path, and
// any other text that is not an address, is returned unchanged.
func Name(s string) string {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || !isScheme(scheme) || rest == "" {
		return s
	}
	if scheme == "az" { // a SAS token follows the question mark
		return container(rest)
	}
	if scheme == "s3" || scheme == "gs" || scheme == "oci" { // what follows the host is literal: %20 and ? are letters of a key
		host, _, _ := strings.Cut(rest, "/")
		u, err := url.Parse(scheme + "://" + host)
		switch {
		case err != nil:
			return scheme + "://..."
		case u.User != nil:
			return scheme + "://..." + rest[strings.LastIndexByte(host, '@'):]
		}
		return s
	}
	if u, err := url.Parse(s); err == nil && u.Opaque == "" {
		return URL(u)
	}
	return scheme + "://..."
}

// container returns a name in Azure's storage without its token. The container may precede the account's host.
func container(rest string) string {
	name, _, token := strings.Cut(rest, "?")
	first, _, _ := strings.Cut(name, "/")
	at := strings.LastIndexByte(first, '@')
	switch {
	case strings.Contains(name[len(first):], "@") && at < 0 && strings.Contains(first, ":"): // a password with a slash
		return "az://..."
	case at >= 0 && strings.ContainsAny(first[:at], ":@"):
		name = "..." + name[at:]
	case at >= 0: // the same name in its other form: before an @ there could be a user
		name = first[at+1:] + "/" + first[:at] + name[len(first):]
	}
	if token {
		name += "?..."
	}
	return "az://" + name
}

// Printable returns the name of a model, as the user wrote it, for messages: without secrets, and without characters that a terminal takes for commands.
func Printable(name string) string { return tensorfs.Printable(Name(name)) }

// isScheme reports whether an address can begin with s, perhaps after the prefix of a store, as in
// hf:https://HOST. A path may have "://" in it too.
func isScheme(s string) bool {
	for i, r := range []byte(s) {
		switch {
		case r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z':
		case i > 0 && (r >= '0' && r <= '9' || r == '+' || r == '.' || r == '-' || r == ':'):
		default:
			return false
		}
	}
	return s != ""
}

// Parts of addresses in a text, also of addresses that became paths of files, in which two
// slashes are one: what precedes the @, and what follows the question mark.
var (
	addressUser  = lazyRegexp(`([A-Za-z][A-Za-z0-9+.-]*:/+)[^/?#\s]*@`)
	addressQuery = lazyRegexp(`([A-Za-z][A-Za-z0-9+.-]*:/+[^?#\s"']*)(\?|#)(?:\.\.\.)?[^\s"']*?([:;,.)?]*(?:[\s"']|$))`)
)

// lazyRegexp compiles an expression when it is used for the first time: most commands
// succeed, and should not wait for it.
func lazyRegexp(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

// Text returns a message without secrets: secrets in the given names, however the message
// spells them, and in any other address.
func Text(text string, names ...string) string {
	for _, name := range names {
		shown := Name(name)
		if shown == name {
			continue
		}
		for _, written := range []string{name, filepath.Clean(name)} {
			quoted := strconv.Quote(written)
			text = strings.ReplaceAll(text, written, shown)
			text = strings.ReplaceAll(text, quoted[1:len(quoted)-1], shown)
		}
	}
	if !strings.Contains(text, ":/") {
		return text
	}
	text = addressUser().ReplaceAllString(text, "$1")
	return addressQuery().ReplaceAllString(text, "$1$2...$3")
}
