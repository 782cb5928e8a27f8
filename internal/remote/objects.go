package remote

import (
	"context"
	"fmt"
	"path"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/internal/parallel"
)

// ObjectName is the name of an object in a bucket, or of the objects below a prefix.
type ObjectName struct {
	Scheme string // with ://
	Bucket string
	Key    string // of an object, or a prefix: "" or ending in /
}

// ObjectScheme describes the names of a protocol for buckets.
type ObjectScheme struct {
	Scheme string                // with ://
	Bucket func() *regexp.Regexp // matches the names of buckets
	MaxKey int                   // bytes
	Login  string                // how credentials are given, for advice
}

// Parse takes a name apart.
func (s ObjectScheme) Parse(name string) (ObjectName, error) {
	bad := func(problem, advice string) (ObjectName, error) {
		return ObjectName{}, tensorfs.Unsupported(name, problem, advice)
	}
	usage := "write " + s.Scheme + "BUCKET/KEY, or " + s.Scheme + "BUCKET/PREFIX/ for a directory"
	rest, ok := strings.CutPrefix(name, s.Scheme)
	if !ok {
		return bad("it is not the name of an object", usage)
	}
	bucket, key, _ := strings.Cut(rest, "/")
	switch {
	case strings.Contains(bucket, "@"):
		name = s.Scheme + "...@" + bucket[strings.LastIndexByte(bucket, '@')+1:]
		return bad("credentials do not belong into a name", s.Login)
	case !s.Bucket().MatchString(bucket):
		return bad(tensorfs.Quote(bucket)+" is not the name of a bucket", usage)
	case len(key) > s.MaxKey || !utf8.ValidString(key):
		return bad("it is not a key that an object can have", usage)
	}
	return ObjectName{s.Scheme, bucket, key}, nil
}

// IsDir reports whether the name belongs to all objects below a prefix.
func (p ObjectName) IsDir() bool { return p.Key == "" || strings.HasSuffix(p.Key, "/") }

// Folder is what the keys of an object's neighbours begin with.
func (p ObjectName) Folder() string {
	if p.IsDir() {
		return p.Key
	}
	return p.Key[:len(p.Key)-len(path.Base(p.Key))]
}

// At returns the name of another key of the bucket.
func (p ObjectName) At(key string) ObjectName { return ObjectName{p.Scheme, p.Bucket, key} }

// String is the name without the slash of a directory.
func (p ObjectName) String() string {
	return strings.TrimSuffix(p.Scheme+p.Bucket+"/"+p.Key, "/")
}

// Below returns the path of a key below the object's folder.
func (p ObjectName) Below(key string) (rel string, ok bool) {
	return strings.CutPrefix(key, p.Folder())
}

// maxShards bounds split models.
const maxShards = 1000

// Shards looks up an object, with all other objects of a split model.
func Shards[T any](ctx context.Context, p ObjectName, look func(ctx context.Context, key string) (T, error)) ([]T, error) {
	first, err := look(ctx, p.Key)
	if err != nil {
		return nil, err
	}
	stem, known, n, ok := gguf.Shard(p.Key)
	if !ok || known < 1 || known > n || n == 1 {
		return []T{first}, nil
	}
	if n > maxShards {
		return nil, tensorfs.Unsupported(p.String(), fmt.Sprintf("it is one of %d files by its name", n), fmt.Sprintf("a model may have at most %d", maxShards))
	}
	all := make([]T, n)
	return all, parallel.Each(ctx, AtOnce, len(all), func(ctx context.Context, i int) (err error) {
		if all[i] = first; int64(i) != known-1 {
			all[i], err = look(ctx, gguf.ShardName(stem, int64(i)+1, n))
		}
		return err
	})
}
