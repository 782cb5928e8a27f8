package s3

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/remote"
)

// Limits of listings.
const (
	maxKeys = 10_000
	maxPage = 16 << 20
)

// object is an object as it was when it was looked up.
type object struct {
	Key     string
	Size    int64
	ETag    string // with its quotation marks
	Version string `json:",omitempty"`
	Time    time.Time
}

// list returns the objects whose keys begin with the place's.
func (b *bucket) list(ctx context.Context, p remote.ObjectName) ([]object, error) {
	var all []object
	err := remote.Pages("", func(token string) (string, error) {
		query := url.Values{"list-type": {"2"}, "encoding-type": {"url"}, "max-keys": {"1000"}, "prefix": {p.Key}}
		if token != "" {
			query.Set("continuation-token", token)
		}
		resp, body, err := b.do(ctx, maxPage, http.MethodGet, "", query, "")
		if err != nil {
			return "", err
		}
		if resp.StatusCode != http.StatusOK {
			return "", b.refused(ctx, p.String(), "", resp, body)
		}
		page, err := readPage(body)
		if err != nil {
			return "", wrong(p, err.Error())
		}
		for _, o := range page.objects {
			if len(o.Key) > maxKey {
				return "", wrong(p, "the server lists "+tensorfs.Quote(o.Key)+", which is longer than a key can be")
			}
			if !strings.HasPrefix(o.Key, p.Key) {
				return "", wrong(p, "the server lists "+tensorfs.Quote(o.Key)+", which was not asked for")
			}
			if !strings.HasSuffix(o.Key, "/") { // which programs make to show a directory
				all = append(all, o)
			}
		}
		if len(all) > maxKeys {
			return "", tensorfs.Unsupported(p.String(), fmt.Sprintf("it has more than %d objects", maxKeys), "name the directory of one model")
		}
		return page.next, nil
	})
	if errors.Is(err, remote.ErrEndless) {
		err = wrong(p, "the server's listing does not end")
	}
	return all, err
}

// wrong is an error about an answer that makes no sense.
func wrong(p remote.ObjectName, problem string) error {
	return &tensorfs.FormatError{File: p.String(), Offset: -1, Problem: problem, Advice: "the server is at fault; check AWS_ENDPOINT_URL"}
}

// page is a part of a listing.
type page struct {
	objects []object
	next    string // token of the next one, "" after the last
}

// listedPage is the answer to ListObjectsV2.
type listedPage struct {
	XMLName               xml.Name
	Contents              contents
	IsTruncated           bool
	NextContinuationToken string
	EncodingType          string
}

// contents are the objects of a page. No server sends more than requested.
type contents []content

// UnmarshalXML implements xml.Unmarshaler for each of them.
func (list *contents) UnmarshalXML(d *xml.Decoder, start xml.StartElement) error {
	if len(*list) == maxKeys {
		return errManyKeys
	}
	var c content
	err := d.DecodeElement(&c, &start)
	*list = append(*list, c)
	return err
}

var errManyKeys = errors.New("it has too many objects")

// readPage reads the answer to ListObjectsV2.
func readPage(body []byte) (page, error) {
	bad := func(problem string) (page, error) {
		return page{}, fmt.Errorf("the server's listing %s", problem)
	}
	var listed listedPage
	switch err := xml.Unmarshal(body, &listed); {
	case errors.Is(err, errManyKeys):
		return bad("has too many objects on a page")
	case err != nil:
		return bad("is not XML that can be read")
	case listed.XMLName.Local != "ListBucketResult":
		return bad("is not a listing, but " + tensorfs.Quote(listed.XMLName.Local))
	case listed.IsTruncated && listed.NextContinuationToken == "":
		return bad("goes on and does not say where")
	}
	var p page
	for _, c := range listed.Contents {
		o := c.object()
		if listed.EncodingType == "url" {
			key, err := url.QueryUnescape(o.Key)
			if err != nil {
				return bad("has a key that is not URL-encoded, although the answer declares it")
			}
			o.Key = key
		}
		if o.Size < 0 || o.Key == "" {
			return bad("has an object without a name or with a negative size")
		}
		p.objects = append(p.objects, o)
	}
	if listed.IsTruncated {
		p.next = listed.NextContinuationToken
	}
	return p, nil
}

// content is an object in a listing.
type content struct {
	Key          string
	Size         int64
	ETag         string
	LastModified string
}

func (c *content) object() object {
	at, _ := time.Parse(time.RFC3339, strings.TrimSpace(c.LastModified)) // without one it has none
	return object{Key: c.Key, Size: c.Size, ETag: quoted(c.ETag), Time: at}
}

// quoted is an ETag as it is in headers: listings of some servers leave out the
// quotation marks. It is "" for one that cannot be compared.
func quoted(etag string) string {
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
