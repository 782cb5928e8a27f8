package gs

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/web"
)

// objectOrigin asks for the bytes of an object.
type objectOrigin struct {
	b *bucket
	o object
	p remote.ObjectName
}

// Request returns a GET for the pinned generation.
func (origin *objectOrigin) Request(ctx context.Context, _, _ int64, _ bool) (*http.Request, error) {
	u := address(origin.b.at, origin.b.name, origin.o.Key, true)
	u.RawQuery = url.Values{"alt": {"media"}, "generation": {origin.o.Generation}}.Encode()
	return origin.b.request(ctx, u)
}

// Accept compares the generation and the checksum of the whole object: an emulator may send
// another one than it was asked for. One of the two has to be stated.
func (origin *objectOrigin) Accept(resp *http.Response) error {
	name := origin.p.String()
	generation, sum := resp.Header.Get("X-Goog-Generation"), checksum(resp.Header)
	switch {
	case generation != "" && generation != origin.o.Generation:
		return web.ErrVersion(name, "it has another generation")
	case sum != "" && origin.o.CRC32C != "" && sum != origin.o.CRC32C:
		return web.ErrVersion(name, "it has another checksum")
	case generation == "" && (sum == "" || origin.o.CRC32C == ""):
		return web.Final(&tensorfs.FormatError{File: name, Offset: -1, Problem: "the server does not say which generation it sends, so a change would not be seen", Advice: "check " + emulate})
	}
	return nil
}

// checksum returns the CRC32C of the whole object that an answer states, "" if it states none.
func checksum(h http.Header) string {
	for _, line := range h.Values("X-Goog-Hash") {
		for part := range strings.SplitSeq(line, ",") {
			if text, ok := strings.CutPrefix(strings.TrimSpace(part), "crc32c="); ok {
				return remote.HexOfBase64(text, 4)
			}
		}
	}
	return ""
}

// Refused explains a refusal, and has the next attempt renew a token that was refused. A generation that is not found was overwritten or deleted.
func (origin *objectOrigin) Refused(resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusNotFound:
		return web.ErrVersion(origin.p.String(), "it was overwritten or deleted")
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden:
	default:
		return nil
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxRefusal)) // an unreadable body counts as empty
	err := origin.b.refused(origin.p, resp, body)
	if resp.StatusCode == http.StatusUnauthorized && origin.b.keys.Ended(resp.Request) {
		return web.Again(err)
	}
	return err
}

// packed is the Origin of an object that is stored compressed: what the server sends has
// neither its size nor ranges.
func packed(p remote.ObjectName) web.Origin {
	return web.Refuse(tensorfs.Unsupported(p.String(), "it is stored compressed (Content-Encoding: gzip), so the server sends no parts of it", "upload it again uncompressed"))
}

var _ web.Origin = (*objectOrigin)(nil)
