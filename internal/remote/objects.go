package remote

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/formats/gguf"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/parallel"
	"github.com/tensorfs/tensorfs/internal/web"
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

// Objects is how a protocol finds the objects of a name.
type Objects[T any] struct {
	Pin   string                                 // names them for the cache, with their server
	Find  func(ctx context.Context) ([]T, error) // asks the server
	Item  func(x T) (Object, error)              // describes an object for a listing
	Wrong func(problem string) error             // makes the error of an answer that makes no sense
}

// Object describes an object for a listing.
type Object struct {
	Key     string     // its key in the bucket
	ID      cache.ID   // its identity and size, without Source
	Host    string     // of the server
	Origin  web.Origin // asks for its bytes
	Refusal web.Origin // replaces Origin, also offline, if the bytes cannot be read; may be nil
}

// objectList is what a name was, as it is pinned.
type objectList[T any] struct{ Objects []T }

// Open looks up a name, as the user wrote it, and returns the objects, and the model among them:
// "." means all of them.
func (f Objects[T]) Open(ctx context.Context, name string, p ObjectName, o Options) (*Listing, string, error) {
	q := Question[objectList[T]]{Name: name, Who: "the server", Offline: o.Offline, Ask: func(ctx context.Context) (objectList[T], error) {
		ctx, cancel := o.Client.Within(ctx)
		defer cancel()
		list, err := f.Find(ctx)
		return objectList[T]{list}, err
	}}
	q.Kept, q.Keep = Kept[objectList[T]](o.Store, f.Pin)
	a, err := q.Answer(ctx)
	if err != nil {
		return nil, "", err
	}
	l, err := f.Listing(Answer[[]T]{a.Value.Objects, a.Offline, a.Silence, a.Note}, p, o)
	if err != nil {
		return nil, "", err
	}
	if !p.IsDir() {
		return l, path.Base(p.Key), nil
	}
	file, err := l.Choose()
	return l, file, err
}

// Listing makes a listing of what was found.
func (f Objects[T]) Listing(a Answer[[]T], p ObjectName, o Options) (*Listing, error) {
	items := make([]Item, len(a.Value))
	for i, found := range a.Value {
		x, err := f.Item(found)
		if err != nil {
			return nil, err
		}
		rel, ok := p.Below(x.Key)
		if !ok {
			return nil, f.Wrong(tensorfs.Quote(x.Key) + " is not below it")
		}
		x.ID.Source = p.At(x.Key).String()
		items[i] = Item{Name: rel, ID: x.ID, Host: x.Host, Origin: x.Refusal}
		if x.Refusal == nil {
			items[i].Origin = a.Origin(x.Origin)
		}
	}
	return o.Listing(p.At(p.Folder()).String(), items, time.Now(), a.Note)
}

// MaxKeys bounds the objects below a prefix.
const MaxKeys = 10_000

// Collect returns the objects of a listing that ask asks for page by page. wrong makes the error of
// an answer that makes no sense, and missing is the error of a listing without objects.
func Collect[T any](p ObjectName, ask func(token string) (page []T, next string, err error), key func(T) string, wrong func(problem string) error, missing string) ([]T, error) {
	var all []T
	err := Pages("", func(token string) (string, error) {
		page, next, err := ask(token)
		if err != nil {
			return "", err
		}
		for _, o := range page {
			k := key(o)
			if !strings.HasPrefix(k, p.Key) {
				return "", wrong("the server lists " + tensorfs.Quote(k) + ", which was not asked for")
			}
			if !strings.HasSuffix(k, "/") { // which programs make to show a directory
				all = append(all, o)
			}
		}
		if len(all) > MaxKeys {
			return "", tensorfs.Unsupported(p.String(), fmt.Sprintf("it has more than %d objects", MaxKeys), "name the directory of one model")
		}
		return next, nil
	})
	switch {
	case errors.Is(err, ErrEndless):
		return nil, wrong("the server's listing does not end")
	case err == nil && len(all) == 0:
		return nil, &tensorfs.FormatError{File: p.String(), Offset: -1, Problem: missing, Advice: "check the name", Kind: syscall.ENOENT}
	}
	return all, err
}

// Capped are the objects of a page in XML. No server sends more than requested.
type Capped[T any] []T

// UnmarshalXML implements xml.Unmarshaler for each of them.
func (list *Capped[T]) UnmarshalXML(d *xml.Decoder, start xml.StartElement) error {
	if len(*list) == MaxKeys {
		return ErrManyKeys
	}
	var c T
	err := d.DecodeElement(&c, &start)
	*list = append(*list, c)
	return err
}

// ErrManyKeys is the error of a page with more objects than requested.
var ErrManyKeys = errors.New("it has too many objects")

// QuotedETag is an ETag as it is in headers: listings of some servers leave out the
// quotation marks. It is "" for one that cannot be compared.
func QuotedETag(etag string) string {
	etag = strings.TrimSpace(etag)
	if n := len(etag); n >= 2 && etag[0] == '"' && etag[n-1] == '"' {
		etag = etag[1 : n-1]
	}
	for _, c := range []byte(etag) {
		if c <= ' ' || c >= 0x7f || c == '"' {
			return ""
		}
	}
	if etag == "" || strings.HasPrefix(etag, "W/") {
		return ""
	}
	return `"` + etag + `"`
}

// HexOfBase64 returns a checksum of n bytes, which clouds write in base64, "" if it is not one.
func HexOfBase64(text string, n int) string {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(b) != n {
		return ""
	}
	return hex.EncodeToString(b)
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
