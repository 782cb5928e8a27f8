package demand

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/hub"
	"github.com/tensorfs/tensorfs/formats/ollama"
)

// Names are the paths below a mount that name models of a server:
//
//	hf:       ORG/NAME   ORG/NAME@REVISION   ORG/NAME:WORD   ORG/NAME@REVISION:WORD
//	          NAME@REVISION   NAME:WORD   NAME@REVISION:WORD   (the Hub knows whose it is)
//	ollama:   MODEL:TAG   NAMESPACE/MODEL:TAG   HOST/NAMESPACE/MODEL:TAG
//
// In a revision, a slash is written as %2F.
type Names struct {
	prefix string
	store  store
	orgs   []string // that may be asked for, in lower case; nil allows all
	hosts  []string // of registries that may be asked besides the usual one
}

// store is how a store's names become paths.
type store struct {
	depth int // how many directories a name may be in
	// name parses the parts of a path. org is what an allow-list names.
	name func(parts []string) (call, org string, ok bool)
	// dir reports whether a directory of this path may have models in it.
	dir func(n *Names, parts []string) bool
}

// stores are the stores whose servers can be asked, by the prefix of their names.
var stores = map[string]store{
	hub.Prefix:    {1, hubName, func(_ *Names, parts []string) bool { return isHubName(parts[0]) }},
	ollama.Prefix: {2, ollamaName, (*Names).isNamespace},
}

// Stores returns the prefixes of the names that can be looked up on a server, sorted.
func Stores() []string {
	var all []string
	for prefix := range stores {
		all = append(all, prefix)
	}
	slices.Sort(all)
	return all
}

// usualHosts are the registries that may be asked without being listed: an attacker who can
// look names up must not choose the server that is asked.
var usualHosts = []string{"hf.co", "huggingface.co", "registry.ollama.ai"}

// NewNames returns the names of a store, one of [Stores]. orgs are the organisations that
// may be asked for: ORG; of Ollama NAMESPACE, "library" for short names, or HOST/NAMESPACE.
// Empty means all of them.
func NewNames(prefix string, orgs []string) (*Names, error) {
	s, ok := stores[prefix]
	if !ok {
		return nil, fmt.Errorf("%s: no server is asked for such names; there are %s", tensorfs.Quote(prefix), strings.Join(Stores(), " and "))
	}
	n := &Names{prefix: prefix, store: s, hosts: usualHosts}
	for _, org := range orgs {
		host, namespace, hasHost := strings.Cut(strings.ToLower(org), "/")
		switch {
		case prefix == hub.Prefix && !hasHost && isHubName(org):
		case prefix == ollama.Prefix && !hasHost && isOllamaName(org+"/m:t"):
		case prefix == ollama.Prefix && hasHost && isOllamaName(host+"/"+namespace+"/m:t"):
			n.hosts = append(slices.Clone(n.hosts), host)
		default:
			return nil, fmt.Errorf("%s is not the name of an organisation", tensorfs.Quote(org))
		}
		n.orgs = append(n.orgs, strings.ToLower(org))
	}
	return n, nil
}

// Model returns the model that a path names, as other commands take it.
func (n *Names) Model(at string) (call string, ok bool) {
	parts := strings.Split(at, "/")
	if len(parts) > n.store.depth+1 || slices.ContainsFunc(parts, isProbe) || n.mayAsk(parts[0]) != (len(parts) > 2) {
		return "", false
	}
	call, org, ok := n.store.name(parts)
	if !ok || n.orgs != nil && !slices.Contains(n.orgs, strings.ToLower(org)) {
		return "", false
	}
	return n.prefix + call, true
}

// Dir reports whether a directory of this path may have models in it.
func (n *Names) Dir(at string) bool {
	parts := strings.Split(at, "/")
	if len(parts) > n.store.depth || slices.ContainsFunc(parts, isProbe) || !n.store.dir(n, parts) {
		return false
	}
	dir := strings.ToLower(at)
	return n.orgs == nil || slices.ContainsFunc(n.orgs, func(org string) bool { return org == dir || strings.HasPrefix(org, dir+"/") })
}

// mayAsk reports whether a registry may be asked.
func (n *Names) mayAsk(host string) bool { return slices.Contains(n.hosts, strings.ToLower(host)) }

// hubName parses ORG/NAME[@REVISION][:WORD], NAME@REVISION[:WORD] and NAME:WORD. A single NAME names a
// directory, because it may be an organisation's.
func hubName(parts []string) (call, org string, ok bool) {
	last := parts[len(parts)-1]
	if len(parts) == 2 {
		org = parts[0]
	}
	name, revision, hasRevision := strings.Cut(last, "@")
	word, hasWord := "", false
	if hasRevision {
		revision, word, hasWord = strings.Cut(revision, ":")
	} else {
		name, word, hasWord = strings.Cut(name, ":")
	}
	switch {
	case len(parts) == 2 && !isHubName(org), len(parts) == 1 && !hasRevision && !hasWord:
		return "", "", false
	case hasRevision && !isRevision(revision) || hasWord && !isPlain(word) || !isHubName(name) || isProbe(name):
		return "", "", false
	}
	call = strings.Join(parts, "/")
	n, err := hub.ParseName(call)
	return call, org, err == nil && n.Select.Path == ""
}

// maxHubName is how long the Hub's names are at most.
const maxHubName = 96

// isHubName reports whether the Hub accepts the name of an organisation or a repository.
func isHubName(s string) bool {
	return len(s) <= maxHubName && isPlain(s) && !strings.Contains(s, "--") && !strings.Contains(s, "..")
}

// isRevision reports whether a text may be a branch, a tag or a commit.
func isRevision(s string) bool {
	s = strings.NewReplacer("%2F", "/", "%2f", "/").Replace(s)
	for part := range strings.SplitSeq(s, "/") {
		if !isPlain(part) {
			return false
		}
	}
	return true
}

// isPlain reports whether a text has only letters, digits, and between them _, - and dots.
func isPlain(s string) bool {
	isWord := func(c byte) bool {
		return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
	}
	if s == "" || !isWord(s[0]) || !isWord(s[len(s)-1]) {
		return false
	}
	for i := range len(s) {
		if c := s[i]; !isWord(c) && c != '-' && c != '.' {
			return false
		}
	}
	return true
}

// ollamaName parses [[HOST/]NAMESPACE/]MODEL:TAG. Without a tag it would be the name of a
// directory.
func ollamaName(parts []string) (call, org string, ok bool) {
	call = strings.Join(parts, "/")
	if !strings.Contains(parts[len(parts)-1], ":") {
		return "", "", false
	}
	n, err := ollama.ParseName(call)
	if err != nil {
		return "", "", false
	}
	org = n.Namespace
	if len(parts) > 2 {
		org = n.Host + "/" + n.Namespace
	}
	return call, org, true
}

func isOllamaName(s string) bool { _, err := ollama.ParseName(s); return err == nil }

// isNamespace reports whether a directory may have models of Ollama: it is a namespace, or a registry
// that may be asked, or a namespace there.
func (n *Names) isNamespace(parts []string) bool {
	if n.mayAsk(parts[0]) {
		return len(parts) == 1 || isOllamaName(strings.Join(parts, "/")+"/m:t")
	}
	return len(parts) == 1 && isOllamaName(parts[0]+"/m:t")
}
