package gs

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/jsonobj"
	"github.com/tensorfs/tensorfs/internal/remote"
)

// maxPage bounds a page of a listing.
const maxPage = 16 << 20

// object is an object as it was when it was looked up.
type object struct {
	Key        string
	Size       int64
	Generation string // a number
	MD5        string `json:",omitempty"` // hex; "" of a composite object
	CRC32C     string `json:",omitempty"` // hex
	Packed     bool   `json:",omitempty"` // it is stored compressed, and the server sends it decompressed
	Time       time.Time
}

// fields are what is asked for of each object.
const fields = "name,size,generation,md5Hash,crc32c,contentEncoding,updated"

// digest is the checksum of the whole object, "" if the server states none.
func (o *object) digest() string {
	switch {
	case o.MD5 != "":
		return "md5:" + o.MD5
	case o.CRC32C != "":
		return "crc32c:" + o.CRC32C
	}
	return ""
}

// readObject reads the description of an object.
func readObject(raw jsonobj.Raw) (o object, problem string) {
	size, err := strconv.ParseInt(raw.Member("size").Text(), 10, 64)
	o = object{Key: raw.Member("name").Text(), Size: size, Generation: raw.Member("generation").Text(), Packed: raw.Member("contentEncoding").Text() == "gzip"}
	o.MD5, o.CRC32C = remote.HexOfBase64(raw.Member("md5Hash").Text(), 16), remote.HexOfBase64(raw.Member("crc32c").Text(), 4)
	o.Time, _ = time.Parse(time.RFC3339, raw.Member("updated").Text()) // without one it has none
	switch {
	case o.Key == "" || len(o.Key) > maxKey || !utf8.ValidString(o.Key):
		return o, "has an object without a name, or with one that no object can have"
	case err != nil || size < 0 || size > cache.MaxSize:
		return o, "gives " + tensorfs.Quote(o.Key) + " a size that no file can have"
	case !isGeneration(o.Generation):
		return o, "gives " + tensorfs.Quote(o.Key) + " no generation, so a change would not be seen"
	}
	return o, ""
}

// isGeneration reports whether a text is a generation: a positive number.
func isGeneration(s string) bool {
	n, err := strconv.ParseInt(s, 10, 64)
	return err == nil && n > 0 && strconv.FormatInt(n, 10) == s
}

// readPage reads a page of a listing. next is the token of the next page, "" after the last.
func readPage(body []byte) (objects []object, next string, err error) {
	o, err := jsonobj.Parse(body)
	if err != nil {
		return nil, "", errors.New("the server's listing is not JSON that can be read")
	}
	for raw := range o.Raw("items").Elements() {
		if len(objects) == remote.MaxKeys {
			return nil, "", errors.New("the server's listing has too many objects on a page")
		}
		x, problem := readObject(raw)
		if problem != "" {
			return nil, "", errors.New("the server's listing " + problem)
		}
		objects = append(objects, x)
	}
	return objects, o.Raw("nextPageToken").Text(), nil
}

// list returns the objects whose names begin with the prefix.
func (b *bucket) list(ctx context.Context, p remote.ObjectName) ([]object, error) {
	return remote.Collect(p, func(token string) ([]object, string, error) {
		u := address(b.at, b.name, "", false)
		query := url.Values{"prefix": {p.Key}, "maxResults": {"1000"}, "fields": {"nextPageToken,items(" + fields + ")"}}
		if token != "" {
			query.Set("pageToken", token)
		}
		u.RawQuery = query.Encode()
		resp, body, err := b.get(ctx, u)
		if err != nil {
			return nil, "", err
		}
		if resp.StatusCode != http.StatusOK {
			return nil, "", b.refused(p, resp, body)
		}
		page, next, err := readPage(body)
		if err != nil {
			err = wrong(p, err.Error())
		}
		return page, next, err
	}, func(o object) string { return o.Key }, func(problem string) error { return wrong(p, problem) }, "there are no objects whose names begin so")
}

// look looks up an object.
func (b *bucket) look(ctx context.Context, key string) (object, error) {
	p := remote.ObjectName{Scheme: Scheme, Bucket: b.name, Key: key}
	u := address(b.at, b.name, key, false)
	u.RawQuery = url.Values{"fields": {fields}}.Encode()
	resp, body, err := b.get(ctx, u)
	if err != nil {
		return object{}, err
	}
	if resp.StatusCode != http.StatusOK {
		return object{}, b.refused(p, resp, body)
	}
	raw, err := jsonobj.ParseRaw(body)
	if err != nil {
		return object{}, wrong(p, "the server's answer is not JSON that can be read")
	}
	o, problem := readObject(raw)
	switch {
	case problem != "":
		return object{}, wrong(p, "the server's answer "+problem)
	case o.Key != key:
		return object{}, wrong(p, "the server answers about "+tensorfs.Quote(o.Key))
	}
	return o, nil
}

// wrong is an error about an answer that makes no sense.
func wrong(p remote.ObjectName, problem string) error {
	return &tensorfs.FormatError{File: p.String(), Offset: -1, Problem: problem, Advice: "the server is at fault; check " + emulate + " if it is set"}
}
