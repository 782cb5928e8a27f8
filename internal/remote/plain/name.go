package plain

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/internal/conceal"
)

// address is a file's address.
type address struct {
	url  *url.URL      // without user and fragment
	user *url.Userinfo // may be nil
}

// parse parses an address. Its errors do not quote it: it may hold a password.
func parse(s string) (address, error) {
	bad := func(file, problem string) (address, error) {
		return address{}, tensorfs.Unsupported(file, problem, "write it as https://HOST/path/model.gguf")
	}
	u, err := url.Parse(s)
	if err != nil {
		return bad(conceal.Name(s), "it is not an address of the web")
	}
	a := address{u, u.User}
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	switch name := a.file(); {
	case u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.Opaque != "":
		return bad(conceal.Name(s), "it is not an address of the web")
	case strings.HasSuffix(u.Path, "/") || !fs.ValidPath(name) || name == "." || strings.ContainsAny(name, "\\\x00"):
		return bad(a.String(), "it is not the address of a file")
	}
	return a, nil
}

// file is the name of the file.
func (a address) file() string { return path.Base(a.url.Path) }

// String is the address without what must not be shown.
func (a address) String() string { return conceal.URL(a.url) }

// dir is the address of the directory that the file is in, as it is shown.
func (a address) dir() string {
	u := url.URL{Scheme: a.url.Scheme, Host: a.url.Host, Path: strings.TrimSuffix(path.Dir(a.url.Path), "/")}
	return u.String()
}

// shards returns the addresses of all files of a split model, or only the file's.
func (a address) shards() []address {
	prefix, number, count, ok := gguf.Shard(a.file())
	if !ok || number < 1 || number > count || count > maxShards {
		return []address{a}
	}
	all := make([]address, count)
	for i := range all {
		u := *a.url
		u.Path, u.RawPath = path.Join(path.Dir(u.Path), gguf.ShardName(prefix, int64(i+1), count)), ""
		all[i] = address{&u, a.user}
	}
	return all
}

// maxShards is how many files are looked for.
const maxShards = 4096

// signatures are the keys of queries that grant access to a file for a while, and do
// not tell one file from another.
var signatures = []string{
	"x-amz-", "x-goog-", "x-ms-", "x-oss-", "x-tos-", "x-obs-", // clouds, for all that begins with it
	"awsaccesskeyid", "googleaccessid", "ossaccesskeyid", "signature", "expires", "policy", "key-pair-id", "securitytoken", // older ones, and CDNs
	"sig", "token", "access_token",
}

// besideSig are such keys beside "sig", for Azure.
var besideSig = []string{"se", "sp", "spr", "sr", "sv", "st", "ske", "skoid", "sks", "skt", "sktid", "skv"}

// isSignature reports whether a key of a query is one of these.
func isSignature(key string, query url.Values) bool {
	key = strings.ToLower(key)
	if query.Has("sig") && slices.Contains(besideSig, key) {
		return true
	}
	for _, s := range signatures {
		if key == s || strings.HasSuffix(s, "-") && strings.HasPrefix(key, s) {
			return true
		}
	}
	return false
}

// same is a text that identifies the file of an address: credentials and permissions are
// left out. It holds no secrets.
func (a address) same() string {
	u := url.URL{Scheme: a.url.Scheme, Host: strings.ToLower(a.url.Host), Path: a.url.Path}
	all, query := a.url.Query(), url.Values{}
	for key, values := range all {
		if !isSignature(key, all) {
			query[key] = values
		}
	}
	if len(query) == 0 {
		return u.String()
	}
	sum := sha256.Sum256([]byte(query.Encode())) // it may hold a secret under another name
	return u.String() + "?" + hex.EncodeToString(sum[:])
}
