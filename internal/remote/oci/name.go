package oci

import (
	"net/url"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/remote"
)

// Scheme begins the names of this package.
const Scheme = "oci://"

// reference is a name, taken apart.
type reference struct {
	registry   string // with its port
	repository string
	tag        string // "" beside a digest
	digest     string // "sha256:HEX", or ""
}

var (
	referenceName = remote.Pattern(`^([A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{1,5})?|\[[0-9A-Fa-f:.]+\](?::[0-9]{1,5})?)` +
		`/([a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*)` +
		`(?::([A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?(?:@(.*))?$`)
	sha256Name = remote.Pattern(`^sha256:[0-9a-f]{64}$`)
)

// maxName bounds the length of a name.
const maxName = 1024

// parse takes a name apart.
func parse(name string) (reference, error) {
	bad := func(problem, advice string) (reference, error) {
		return reference{}, tensorfs.Unsupported(name, problem, advice)
	}
	const usage = "write oci://REGISTRY/REPOSITORY:TAG, or oci://REGISTRY/REPOSITORY@sha256:HEX"
	rest, ok := strings.CutPrefix(name, Scheme)
	if first, after, _ := strings.Cut(rest, "/"); ok && strings.Contains(first, "@") {
		name = Scheme + "...@" + first[strings.LastIndexByte(first, '@')+1:] + "/" + after
		return bad("credentials do not belong into a name", "run 'docker login'")
	}
	m := referenceName().FindStringSubmatch(rest)
	switch {
	case !ok || m == nil || len(name) > maxName:
		return bad("it is not the name of an artifact", usage)
	case m[4] == "" && strings.Contains(rest, "@") || m[4] != "" && !sha256Name().MatchString(m[4]):
		return bad("what follows the @ is not sha256: and 64 digits", usage)
	}
	r := reference{m[1], m[2], m[3], m[4]}
	switch {
	case r.digest != "":
		r.tag = ""
	case r.tag == "":
		r.tag = "latest"
	}
	if r.host() == hub && !strings.Contains(r.repository, "/") {
		r.repository = "library/" + r.repository
	}
	return r, nil
}

// hub is the host of what Docker calls docker.io.
const hub = "registry-1.docker.io"

// host returns whom to ask.
func (r reference) host() string {
	switch r.registry {
	case "docker.io", "index.docker.io":
		return hub
	}
	return r.registry
}

// String is the name.
func (r reference) String() string {
	if r.digest != "" {
		return Scheme + r.registry + "/" + r.repository + "@" + r.digest
	}
	return Scheme + r.registry + "/" + r.repository + ":" + r.tag
}

// at returns the reference of a digest in the same repository.
func (r reference) at(digest string) reference {
	r.tag, r.digest = "", digest
	return r
}

// what is the last part of a manifest's address.
func (r reference) what() string {
	if r.digest != "" {
		return r.digest
	}
	return r.tag
}

// address returns the address of a part of the repository: "manifests/latest".
func (r reference) address(part string) *url.URL {
	return &url.URL{Scheme: remote.Scheme(r.host()), Host: r.host(), Path: "/v2/" + r.repository + "/" + part}
}

// server is the address of the registry: what tells it from others.
func (r reference) server() string {
	u := r.address("")
	u.Path = ""
	return u.String()
}
