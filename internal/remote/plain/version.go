package plain

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tensorfs/tensorfs/internal/web"
)

// version is a server's description of a file that tells it from other versions.
type version struct {
	ETag     string    `json:"etag,omitzero"`     // as it came
	Modified string    `json:"modified,omitzero"` // Last-Modified, as it came
	Size     int64     `json:"size"`
	Exact    bool      `json:"exact"` // a change of the file changes ETag or Modified
	Time     time.Time `json:"time"`  // of the file, or when it was asked for
}

// versionOf reads the headers of an answer.
func versionOf(h http.Header, size int64, now time.Time) version {
	v := version{ETag: h.Get("ETag"), Modified: h.Get("Last-Modified"), Size: size, Time: now.UTC().Truncate(time.Second)}
	modified, err := http.ParseTime(v.Modified)
	if err == nil {
		v.Time = modified.UTC()
	} else {
		v.Modified = ""
	}
	// What was modified within the second in which it was sent may be modified once
	// more in it.
	date, derr := http.ParseTime(h.Get("Date"))
	v.Exact = v.strong() || err == nil && derr == nil && !modified.After(date.Add(-time.Second))
	return v
}

// strong reports whether the ETag is of the bytes.
func (v *version) strong() bool { return strings.HasPrefix(v.ETag, `"`) }

// key is what the cache knows the file by.
func (v *version) key(a address) string {
	by := v.Modified
	if v.strong() {
		by = v.ETag
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d", a.same(), by, v.Size))
	return "web:" + hex.EncodeToString(sum[:])
}

// require makes a request one for this version.
func (v *version) require(h http.Header) {
	switch {
	case v.strong():
		h.Set("If-Match", v.ETag)
	case v.Modified != "":
		h.Set("If-Unmodified-Since", v.Modified)
	}
}

// check compares an answer with the version.
func (v *version) check(path string, h http.Header) error {
	switch etag, modified := h.Get("ETag"), h.Get("Last-Modified"); {
	case v.ETag != "" && etag != v.ETag:
		return web.ErrVersion(path, "its ETag is another one")
	case !v.strong() && v.Modified != "" && modified != v.Modified:
		return web.ErrVersion(path, "it was modified")
	}
	return nil
}
