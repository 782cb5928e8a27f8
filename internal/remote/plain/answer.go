package plain

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/web"
)

// part takes an answer with the beginning of the file.
func (f *finding) part(resp *http.Response) (foundFile, error) {
	text := resp.Header.Get("Content-Range")
	from, last, size, ok := web.ContentRange(text)
	switch {
	case strings.HasSuffix(text, "/*"):
		return foundFile{}, f.refuse("the server does not say how long it is", "download it, and name the file")
	case !ok || from != 0 || resp.ContentLength >= 0 && resp.ContentLength != last+1:
		return foundFile{}, &tensorfs.FormatError{File: f.name, Offset: -1, Problem: "the server sends another part of it than was asked for", Advice: "try again later", Kind: errWrongPart}
	}
	v := versionOf(resp.Header, size, time.Now())
	x := foundFile{item: f.item(v, f.origin(v, resp))}
	f.pin(v)
	if !v.Exact || last+1 < min(size, cache.CellSize) {
		return x, nil
	}
	var err error
	if x.entry, err = f.Store.Entry(x.item.ID); err != nil {
		return foundFile{}, err
	}
	if last++; last < size {
		last = last / cache.CellSize * cache.CellSize
	}
	w := x.entry.Writer(0)
	_, _ = w.Fill(resp.Body, last, nil) // what does not come is asked for again
	_ = w.Close()
	return x, nil
}

// takeWhole takes an answer with all of the file.
func (f *finding) takeWhole(ctx context.Context, resp *http.Response) (foundFile, error) {
	size := resp.ContentLength
	only := "the server sends only whole files"
	switch {
	case size < 0:
		b, err := io.ReadAll(io.LimitReader(resp.Body, web.MaxWhole+1))
		switch {
		case err != nil:
			return foundFile{}, f.brokeOff()
		case len(b) > web.MaxWhole:
			return foundFile{}, f.refuse(only+", and does not say how long they are", "download it, and name the file")
		}
		return f.bytes(b, resp), nil
	case size > cache.MaxSize:
		return foundFile{}, f.refuse(fmt.Sprintf("by the server's answer it has %d bytes, which no model has", size), "check the address")
	}
	v := versionOf(resp.Header, size, time.Now())
	if !v.Exact {
		if size > web.MaxWhole {
			return foundFile{}, f.refuse(fmt.Sprintf("%s (%s), and nothing that tells versions of it apart", only, remote.Gigabytes(size)), "download it, and name the file")
		}
		b, err := io.ReadAll(io.LimitReader(resp.Body, size))
		if err != nil || int64(len(b)) != size {
			return foundFile{}, f.brokeOff()
		}
		return f.bytes(b, resp), nil
	}
	x := foundFile{item: f.item(v, f.origin(v, resp))}
	var err error
	if x.entry, err = f.Store.Entry(x.item.ID); err != nil {
		return foundFile{}, err
	}
	switch {
	case len(x.entry.Missing(0, size)) == 0:
	case size > web.MaxWhole && !f.Download:
		err = f.refuse(fmt.Sprintf("%s (%s)", only, remote.Gigabytes(size)), "use --download to fetch it first")
	default:
		err = f.download(ctx, x.entry, v, resp)
	}
	if err != nil {
		x.entry.Close()
		return foundFile{}, err
	}
	f.pin(v)
	return x, nil
}

// bytes is a file that arrived complete and is not shared.
func (f *finding) bytes(b []byte, resp *http.Response) foundFile {
	v := versionOf(resp.Header, int64(len(b)), time.Now())
	x := f.item(v, f.origin(v, resp))
	x.Bytes = b
	return foundFile{item: x}
}

func (f *finding) brokeOff() error {
	return &tensorfs.FormatError{File: f.name, Offset: -1, Problem: "the connection broke off", Advice: "try again later", Kind: io.ErrUnexpectedEOF}
}

// maxTries is how often a whole file is asked for without any of it coming that did
// not come before.
const maxTries = 5

// download brings all of a file into the cache, from the body of an answer. Where
// that breaks off, all of it is asked for again: the server has no ranges.
func (f *finding) download(ctx context.Context, entry *cache.Entry, v version, resp *http.Response) error {
	add, end := func(int64) {}, func() {}
	if f.Progress != nil {
		add, end = f.Progress("download "+f.file(), v.Size)
	}
	defer end()
	var have int64
	for tries := 1; ; tries++ {
		var to int64
		w := entry.Writer(0)
		n, _ := w.Fill(resp.Body, v.Size, func(n int64) {
			if to += n; to > have {
				add(to - have)
				have, tries = to, 0
			}
		})
		if err := w.Close(); err != nil {
			return err
		}
		switch {
		case n == v.Size:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case tries >= maxTries:
			return f.brokeOff()
		}
		resp.Body.Close()
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(tries) * time.Second):
		}
		var err error
		if resp, err = f.Client.Get(ctx, f.ask); err != nil {
			return err
		}
		defer resp.Body.Close()
		switch {
		case resp.StatusCode >= 400:
			return refusal(f.name, resp)
		case resp.StatusCode != http.StatusOK || resp.ContentLength != v.Size:
			return web.ErrVersion(f.name, "it has another size")
		}
		if err := v.check(f.name, resp.Header); err != nil {
			return err
		}
	}
}
