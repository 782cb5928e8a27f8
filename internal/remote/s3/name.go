package s3

import (
	"path"
	"strings"
	"unicode/utf8"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/remote"
)

// Scheme begins the names of this package.
const Scheme = "s3://"

// objectName is a name, taken apart.
type objectName struct {
	bucket string
	key    string // of an object, or what the keys below a directory begin with: "" or ending in /
	dir    bool
}

// bucketName matches the names of buckets, at AWS and elsewhere.
var bucketName = remote.Pattern(`^[A-Za-z0-9][A-Za-z0-9._-]{1,254}$`)

// maxKey is the length of the longest key.
const maxKey = 1024

// parse takes a name apart.
func parse(name string) (objectName, error) {
	bad := func(problem, advice string) (objectName, error) {
		return objectName{}, tensorfs.Unsupported(name, problem, advice)
	}
	const usage = "write s3://BUCKET/KEY, or s3://BUCKET/PREFIX/ for a directory"
	rest, ok := strings.CutPrefix(name, Scheme)
	if !ok {
		return bad("it is not the name of an object", usage)
	}
	bucket, key, _ := strings.Cut(rest, "/")
	switch {
	case strings.Contains(bucket, "@"):
		name = Scheme + "...@" + bucket[strings.LastIndexByte(bucket, '@')+1:]
		return bad("credentials do not belong into a name", "set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY")
	case !bucketName().MatchString(bucket):
		return bad(tensorfs.Quote(bucket)+" is not the name of a bucket", usage)
	case len(key) > maxKey || !utf8.ValidString(key):
		return bad("it is not a key that an object can have", usage)
	}
	return objectName{bucket, key, key == "" || strings.HasSuffix(key, "/")}, nil
}

// folder is what the keys of an object's neighbours begin with.
func (p objectName) folder() string {
	if p.dir {
		return p.key
	}
	return p.key[:len(p.key)-len(path.Base(p.key))]
}

// String is the name without the slash of a directory.
func (p objectName) String() string {
	return strings.TrimSuffix(Scheme+p.bucket+"/"+p.key, "/")
}
