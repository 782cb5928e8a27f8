package hub

import (
	"bytes"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/remote"
)

const (
	maxEntries = 100_000  // of a tree
	maxListing = 64 << 20 // bytes of it
)

// file is a file of a commit.
type file struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256,omitzero"` // of the content; "" for small files
	Git    string `json:"git,omitzero"`    // git's id of the content, where SHA256 is ""
}

// digest is the identity of the file's content.
func (f *file) digest() string {
	if f.SHA256 != "" {
		return "sha256:" + f.SHA256
	}
	return "git:" + f.Git
}

// check describes what is wrong with a file, "" if it is valid.
func (f *file) check() string {
	if problem := remote.CheckName(f.Path); problem != "" {
		return problem
	}
	switch {
	case f.Size < 0 || f.Size > cache.MaxSize:
		return fmt.Sprintf("has a size of %d bytes", f.Size)
	case f.SHA256 != "" && !isHex(f.SHA256, 64), f.SHA256 == "" && !isHex(f.Git, commitSize):
		return "has an identity that is not a digest"
	}
	return ""
}

// treeEntry is an entry of a tree as the Hub writes it.
type treeEntry struct {
	Type string `json:"type"`
	Path string `json:"path"`
	Size int64  `json:"size"`
	OID  string `json:"oid"`
	LFS  *struct {
		OID  string `json:"oid"`
		Size int64  `json:"size"`
	} `json:"lfs"`
}

// tree is a tree that is read page by page.
type tree struct {
	files   []file
	entries int
}

// add adds a page.
func (t *tree) add(page []byte) error {
	dec := jsontext.NewDecoder(bytes.NewReader(page))
	bad := func(problem string) error {
		return &tensorfs.FormatError{Offset: dec.InputOffset(), Problem: "the Hub's list of files " + problem, Advice: "try again later"}
	}
	notJSON := func(error) error { return bad("is not as it should be") } // the text of the error may quote anything
	if start, err := dec.ReadToken(); err != nil || start.Kind() != '[' {
		return notJSON(err)
	}
	for dec.PeekKind() != ']' {
		var e treeEntry
		if err := json.UnmarshalDecode(dec, &e); err != nil {
			return notJSON(err)
		}
		if t.entries++; t.entries > maxEntries {
			return bad(fmt.Sprintf("has more than %d entries", maxEntries))
		}
		if e.Type != "file" {
			continue
		}
		f := file{Path: e.Path, Size: e.Size, Git: e.OID}
		if e.LFS != nil {
			f.Size, f.SHA256, f.Git = e.LFS.Size, e.LFS.OID, ""
			if f.SHA256 == "" {
				return bad("is wrong: " + tensorfs.Quote(e.Path) + " has no digest")
			}
		}
		if problem := f.check(); problem != "" {
			return bad("is wrong: " + tensorfs.Quote(e.Path) + " " + problem)
		}
		t.files = append(t.files, f)
	}
	if _, err := dec.ReadToken(); err != nil {
		return notJSON(err)
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return notJSON(err)
	}
	return nil
}

// nextPage returns the query of the next page's address, from a header such as
//
//	Link: <https://huggingface.co/api/models/ORG/NAME/tree/COMMIT?cursor=...>; rel="next"
//
// ok is false after the last page, and the query is "" where the next page's address is
// of no use. The rest of the address is known, and no business of the server: it
// might name another one.
func nextPage(link string) (query string, ok bool) {
	for {
		_, rest, found := strings.Cut(link, "<")
		address, rest, found2 := strings.Cut(rest, ">")
		if !found || !found2 {
			return "", false
		}
		params, _, _ := strings.Cut(rest, "<") // of the next link, if there is one
		for p := range strings.SplitSeq(params, ";") {
			key, value, _ := strings.Cut(strings.TrimSpace(p), "=")
			if strings.EqualFold(strings.TrimSpace(key), "rel") && strings.EqualFold(strings.Trim(value, "\", "), "next") {
				u, err := url.Parse(address)
				if err != nil {
					return "", true
				}
				return u.RawQuery, true
			}
		}
		link = rest
	}
}
