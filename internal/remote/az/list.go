package az

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/remote"
)

// maxPage bounds a page of a listing.
const maxPage = 16 << 20

// blob is a blob as it was when it was looked up.
type blob struct {
	Key  string
	Size int64
	ETag string // with its quotation marks
	MD5  string `json:",omitempty"` // hex; "" if the server states none
	Time time.Time
}

// digest is the checksum of the whole blob, "" if the server states none.
func (b *blob) digest() string {
	if b.MD5 == "" {
		return ""
	}
	return "md5:" + b.MD5
}

// check returns what is wrong with a blob as the server describes it.
func (b *blob) check() (problem string) {
	switch {
	case b.Key == "" || len(b.Key) > 4096 || !utf8.ValidString(b.Key):
		return "has a blob without a name, or with one that no blob can have"
	case b.Size < 0 || b.Size > cache.MaxSize:
		return "gives " + tensorfs.Quote(b.Key) + " a size that no file can have"
	case b.ETag == "":
		return "gives " + tensorfs.Quote(b.Key) + " no ETag, so a change would not be seen"
	}
	return ""
}

// listedPage is the answer to List Blobs.
type listedPage struct {
	XMLName xml.Name
	Blobs   struct {
		Blob remote.Capped[listedBlob]
	}
	NextMarker string
}

// listedBlob is a blob in a listing.
type listedBlob struct {
	Name struct {
		Encoded bool   `xml:"Encoded,attr"` // it has letters that XML cannot have
		Text    string `xml:",chardata"`
	}
	Properties struct {
		Modified string `xml:"Last-Modified"`
		ETag     string `xml:"Etag"`
		Size     string `xml:"Content-Length"`
		MD5      string `xml:"Content-MD5"`
		Kind     string `xml:"ResourceType"`
	}
	Metadata struct {
		Folder string `xml:"hdi_isfolder"`
	}
}

// trimMark removes the mark with which the server begins XML.
func trimMark(body []byte) []byte { return bytes.TrimPrefix(body, []byte("\ufeff")) }

// readPage reads a page of a listing. next is the marker of the next page, "" after the last.
func readPage(body []byte) (blobs []blob, next string, err error) {
	bad := func(problem string) ([]blob, string, error) {
		return nil, "", errors.New("the server's listing " + problem)
	}
	var listed listedPage
	switch err := xml.Unmarshal(trimMark(body), &listed); {
	case errors.Is(err, remote.ErrManyKeys):
		return bad("has too many blobs on a page")
	case err != nil:
		return bad("is not XML that can be read")
	case listed.XMLName.Local != "EnumerationResults":
		return bad("is not a listing, but " + tensorfs.Quote(listed.XMLName.Local))
	}
	for _, x := range listed.Blobs.Blob {
		if x.Properties.Kind == "directory" || x.Metadata.Folder == "true" { // of an account with a hierarchical namespace
			continue
		}
		size, err := strconv.ParseInt(x.Properties.Size, 10, 64)
		if err != nil {
			size = -1
		}
		b := describe(x.Name.Text, size, x.Properties.ETag, x.Properties.MD5, x.Properties.Modified)
		if x.Name.Encoded {
			if b.Key, err = url.PathUnescape(b.Key); err != nil {
				return bad("has a name that is not URL-encoded, although the answer declares it")
			}
		}
		if problem := b.check(); problem != "" {
			return bad(problem)
		}
		blobs = append(blobs, b)
	}
	return blobs, listed.NextMarker, nil
}

// describe makes a blob of its properties, as the server writes them.
func describe(key string, size int64, etag, md5, modified string) blob {
	at, _ := http.ParseTime(modified) // without one it has none
	return blob{key, size, remote.QuotedETag(etag), remote.HexOfBase64(md5, 16), at}
}

// list returns the blobs whose names begin with the prefix.
func (s *store) list(ctx context.Context, p place) ([]blob, error) {
	return remote.Collect(p.ObjectName, func(marker string) ([]blob, string, error) {
		query := url.Values{"restype": {"container"}, "comp": {"list"}, "maxresults": {"1000"}, "include": {"metadata"}}
		if p.Key != "" {
			query.Set("prefix", p.Key)
		}
		if marker != "" {
			query.Set("marker", marker)
		}
		resp, body, err := s.do(ctx, http.MethodGet, "", query)
		if err != nil {
			return nil, "", err
		}
		if resp.StatusCode != http.StatusOK {
			return nil, "", s.refused(p, resp, body)
		}
		page, next, err := readPage(body)
		if err != nil {
			err = wrong(p.ObjectName, err.Error())
		}
		return page, next, err
	}, func(b blob) string { return b.Key }, func(problem string) error { return wrong(p.ObjectName, problem) }, "there are no blobs whose names begin so")
}

// look looks up a blob.
func (s *store) look(ctx context.Context, p place) (blob, error) {
	resp, body, err := s.do(ctx, http.MethodHead, p.Key, nil)
	if err != nil {
		return blob{}, err
	}
	if resp.StatusCode != http.StatusOK {
		return blob{}, s.refused(p, resp, body)
	}
	b := describe(p.Key, resp.ContentLength, resp.Header.Get("ETag"), resp.Header.Get("Content-MD5"), resp.Header.Get("Last-Modified"))
	if strings.EqualFold(resp.Header.Get("X-Ms-Meta-Hdi_isfolder"), "true") || resp.Header.Get("X-Ms-Resource-Type") == "directory" {
		return blob{}, tensorfs.Unsupported(p.String(), "it is a directory", "write "+p.String()+"/")
	}
	if problem := b.check(); problem != "" {
		return blob{}, wrong(p.ObjectName, "the server's answer "+problem)
	}
	return b, nil
}
