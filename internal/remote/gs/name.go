package gs

import (
	"net/url"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/remote"
)

// Scheme begins the names of this package.
const Scheme = "gs://"

// maxKey is the length of the longest name of an object.
const maxKey = 1024

const (
	login   = "run 'gcloud auth application-default login', or set GOOGLE_APPLICATION_CREDENTIALS"
	usage   = "write gs://BUCKET/KEY, or gs://BUCKET/PREFIX/ for a directory"
	emulate = "STORAGE_EMULATOR_HOST"
)

// names are the names of objects and buckets. Some old buckets have capitals.
var names = remote.ObjectScheme{
	Scheme: Scheme,
	Bucket: remote.Pattern(`^[A-Za-z0-9][A-Za-z0-9._-]{1,220}[A-Za-z0-9]$`),
	MaxKey: maxKey,
	Login:  login,
}

// parse takes a name apart. The keys "." and ".." would be parts of an address.
func parse(name string) (remote.ObjectName, error) {
	p, err := names.Parse(name)
	if err == nil && (p.Key == "." || p.Key == ".." || strings.ContainsAny(p.Key, "\r\n")) {
		err = tensorfs.Unsupported(name, "it is not a key that an object can have", usage)
	}
	return p, err
}

// public is the server of all buckets.
var public = url.URL{Scheme: "https", Host: "storage.googleapis.com"}

// endpoint returns the server, and whether it is an emulator, as Google's own clients read
// STORAGE_EMULATOR_HOST: HOST:PORT, or an address, whose path begins all others. The path of
// the JSON API, which some of them want at its end, may be left out.
func endpoint(getenv func(string) string) (at url.URL, emulator bool, err error) {
	given := strings.TrimSpace(getenv(emulate))
	if given == "" {
		return public, false, nil
	}
	if !strings.Contains(given, "://") {
		given = "http://" + given
	}
	u, err := url.Parse(given)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return url.URL{}, true, tensorfs.Unsupported(emulate, "it is not an address like http://HOST:PORT", "set it right, or unset it") // which is not shown: it may hold a password
	}
	path := strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/storage/v1")
	return url.URL{Scheme: u.Scheme, Host: u.Host, Path: path}, true, nil
}

// address returns the address of an object's description or, with media, of its bytes; for
// the key "", of the list of the bucket's objects.
func address(at url.URL, bucket, key string, media bool) *url.URL {
	path, escaped := at.Path, at.EscapedPath()
	if media {
		path, escaped = path+"/download", escaped+"/download"
	}
	path, escaped = path+"/storage/v1/b/"+bucket+"/o", escaped+"/storage/v1/b/"+bucket+"/o"
	if key != "" {
		path, escaped = path+"/"+key, escaped+"/"+url.PathEscape(key)
	}
	return &url.URL{Scheme: at.Scheme, Host: at.Host, Path: path, RawPath: escaped}
}
