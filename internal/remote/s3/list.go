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

// maxPage bounds a page of a listing.
const maxPage = 16 << 20

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
	return remote.Collect(p, func(token string) ([]object, string, error) {
		query := url.Values{"list-type": {"2"}, "encoding-type": {"url"}, "max-keys": {"1000"}, "prefix": {p.Key}}
		if token != "" {
			query.Set("continuation-token", token)
		}
		resp, body, err := b.do(ctx, maxPage, http.MethodGet, "", query, "")
		if err != nil {
			return nil, "", err
		}
		if resp.StatusCode != http.StatusOK {
			return nil, "", b.refused(ctx, p.String(), "", resp, body)
		}
		page, err := readPage(body)
		if err != nil {
			err = wrong(p, err.Error())
		}
		return page.objects, page.next, err
	}, func(o object) string { return o.Key }, func(problem string) error { return wrong(p, problem) }, "there are no objects whose keys begin so")
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
	Contents              remote.Capped[content]
	IsTruncated           bool
	NextContinuationToken string
	EncodingType          string
}

// readPage reads the answer to ListObjectsV2.
func readPage(body []byte) (page, error) {
	bad := func(problem string) (page, error) {
		return page{}, fmt.Errorf("the server's listing %s", problem)
	}
	var listed listedPage
	switch err := xml.Unmarshal(body, &listed); {
	case errors.Is(err, remote.ErrManyKeys):
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
		if len(o.Key) > maxKey {
			return bad("has " + tensorfs.Quote(o.Key) + ", which is longer than a key can be")
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
	return object{Key: c.Key, Size: c.Size, ETag: remote.QuotedETag(c.ETag), Time: at}
}
