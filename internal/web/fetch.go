package web

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"syscall"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
)

// Origin forms requests for the bytes of one file of a server. Many
// goroutines may call its methods at once.
type Origin interface {
	// Request returns a GET for [off, off+n) of the file, signed; the range itself is added
	// later. fresh is set after a refusal: if requests go to an address that was resolved
	// before, resolve it again.
	Request(ctx context.Context, off, n int64, fresh bool) (*http.Request, error)
	// Accept checks the headers of an answer whose status is 200 or 206. An error that
	// wraps tensorfs.ErrChanged means that the file is not the pinned one any more.
	Accept(resp *http.Response) error
	// Refused receives an answer with a status from 400 on that will not pass with time; it
	// may read the body. A returned error ends the attempts, unless it is one of Again.
	Refused(resp *http.Response) error
}

// MaxWhole is the size of the files that are taken from servers which send only
// whole files.
const MaxWhole = 64 << 20

var (
	// errStale marks an answer after which the request is made once more: the file's
	// address is resolved, or the credentials are looked up again.
	errStale = errors.New("the address is not valid any more")
	// errAnswer marks an answer that is not what was asked for. Another may be.
	errAnswer = errors.New("a wrong answer")
)

// Again is an error of Origin.Refused after which there is one more attempt, with a fresh
// request.
func Again(err error) error { return marked{err, errStale} }

// Final is an error of Origin.Request or Origin.Accept that another attempt does not change.
func Final(err error) error { return marked{err, errPermanent} }

// Misconfigured is an error of Origin.Request about a setting or a file of credentials, which another
// attempt does not change. The problem names the setting: the error of a read is about the file that
// is read.
func Misconfigured(err error) error {
	if e, ok := errors.AsType[*tensorfs.FormatError](err); ok && e.File != "" {
		named := *e
		named.File, named.Problem = "", tensorfs.Printable(e.File)+": "+e.Problem
		err = &named
	}
	return Final(err)
}

// fetch brings a range of whole cells into the cache. It goes on after whatever
// breaks off, until the deadline of ctx.
func (f *File) fetch(ctx context.Context, r cache.Range, hurry bool) error {
	release, err := f.entry.Claim(ctx, r)
	if err != nil {
		return err
	}
	defer release()
	for _, m := range f.entry.Missing(r.Off, r.N) { // another process may have fetched it
		if err := f.fetchMissing(ctx, m, hurry); err != nil {
			return err
		}
	}
	return nil
}

// fetchMissing asks for a range until it has come.
func (f *File) fetchMissing(ctx context.Context, r cache.Range, hurry bool) (err error) {
	off, end := r.Off, r.Off+r.N
	w := f.entry.Writer(off)
	defer func() {
		if cerr := w.Close(); err == nil {
			err = cerr
		}
	}()
	fresh, refused := false, false // refused: the last time, with a new address
	for tries := 0; off < end; tries++ {
		n, resp, err := f.attempt(ctx, off, end-off, fresh, hurry, w)
		off += n
		fresh = false
		if n > 0 {
			tries, refused = 0, false
		}
		switch {
		case off >= end:
			return nil
		case errors.Is(err, errStale) && !refused:
			fresh, refused = true, true
			continue
		case errors.Is(err, tensorfs.ErrChanged):
			return err
		case errors.Is(err, errStale):
			return f.gaveUp(ctx, err)
		}
		wait, ok := f.c.wait(ctx, tries, resp, err)
		if !ok {
			return f.gaveUp(ctx, err)
		}
		f.c.opts.Logger.Debug("an attempt failed", "file", f.path, "offset", off, "error", err, "wait", wait)
		if serr := sleep(ctx, wait); serr != nil {
			return f.gaveUp(ctx, err)
		}
	}
	return nil
}

// gaveUp is the error of a range that did not come: the last one, and whether the
// deadline ended it.
func (f *File) gaveUp(ctx context.Context, err error) error {
	var kind error = syscall.EIO
	var e *tensorfs.FormatError
	switch errors.As(err, &e); {
	case errors.Is(err, context.Canceled) && !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return err
	case errors.Is(err, context.DeadlineExceeded), timedOut(err), errors.Is(ctx.Err(), context.DeadlineExceeded):
		kind = syscall.ETIMEDOUT
	case e != nil && errors.Is(e.Kind, syscall.EACCES):
		kind = syscall.EACCES
	}
	if e != nil {
		return &tensorfs.FormatError{File: f.path, Offset: -1, Problem: e.Problem, Advice: e.Advice, Kind: kind}
	}
	return &tensorfs.FormatError{File: f.path, Offset: -1, Problem: "the server sent nothing in time", Advice: "check the connection, and read it again", Kind: kind}
}

// attempt asks once, and returns how many bytes, in whole cells, it brought in.
func (f *File) attempt(ctx context.Context, off, n int64, fresh, hurry bool, w *cache.Writer) (int64, *http.Response, error) {
	leave, err := f.c.gates.enter(ctx, f.host, hurry)
	if err != nil {
		return 0, nil, err
	}
	defer leave()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	req, err := f.origin.Request(ctx, off, n, fresh)
	if err != nil {
		return 0, nil, err
	}
	watch := watchdog(end)
	defer watch.Stop()
	resp := answered(req)
	if resp == nil {
		req.Header.Set("Range", Range(off, n))
		if resp, err = f.c.send(ctx, req); err != nil {
			return 0, nil, err
		}
	}
	defer resp.Body.Close()
	body := progress{resp.Body, watch}
	skip, err := f.check(resp, off)
	if err != nil {
		return 0, resp, err
	}
	if _, err := io.CopyN(io.Discard, body, skip); err != nil {
		return 0, resp, f.brokeOff(err)
	}
	got, err := w.Fill(body, n, f.came)
	f.c.fetched.Add(got)
	if err != nil && !errors.Is(err, tensorfs.ErrChanged) {
		err = f.brokeOff(err)
	}
	return got, resp, err
}

// Range is the header for a range.
func Range(off, n int64) string { return fmt.Sprintf("bytes=%d-%d", off, off+n-1) }

func (f *File) brokeOff(err error) error {
	return &tensorfs.FormatError{File: f.path, Offset: -1, Problem: "the connection broke off", Advice: "read it again", Kind: err}
}

// check looks at an answer to a request for the bytes from off on. skip is how many
// bytes come before them.
func (f *File) check(resp *http.Response, off int64) (skip int64, err error) {
	wrong := func(format string, args ...any) error {
		return &tensorfs.FormatError{File: f.path, Offset: -1, Problem: fmt.Sprintf(format, args...), Advice: "the server is at fault; try again later", Kind: errAnswer}
	}
	changed := func(why string) error { return ErrVersion(f.path, why) }
	if resp.StatusCode >= 400 && !transient(resp.StatusCode) {
		switch err := f.origin.Refused(resp); {
		case errors.Is(err, errStale):
			return 0, err
		case err != nil:
			return 0, marked{err, errPermanent}
		}
	}
	switch s := resp.StatusCode; {
	case s == http.StatusUnauthorized, s == http.StatusForbidden:
		return 0, marked{Status(f.path, resp, "check the token, or the permission to read it"), errStale}
	case s == http.StatusGone:
		return 0, marked{changed("it is gone"), errStale}
	case s == http.StatusNotFound:
		return 0, changed("it is not there any more")
	case s == http.StatusPreconditionFailed:
		return 0, changed("it has another version")
	case s == http.StatusRequestedRangeNotSatisfiable:
		return 0, changed("it is shorter")
	case transient(s):
		if s == http.StatusTooManyRequests || s == http.StatusServiceUnavailable {
			f.tooMany()
		}
		return 0, Status(f.path, resp, "try again later")
	case s != http.StatusOK && s != http.StatusPartialContent:
		return 0, marked{Status(f.path, resp, "check the address"), errPermanent}
	}
	if e := resp.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return 0, marked{wrong("the server sends it compressed"), errPermanent}
	}
	size := f.entry.Size()
	if resp.StatusCode == http.StatusOK {
		switch {
		case resp.ContentLength != size && resp.ContentLength >= 0:
			return 0, changed(fmt.Sprintf("it has %d bytes and not %d", resp.ContentLength, size))
		case size > MaxWhole || resp.ContentLength < 0:
			return 0, wrong("the server sent the whole file instead of a part")
		}
		return off, f.origin.Accept(resp)
	}
	first, last, total, ok := ContentRange(resp.Header.Get("Content-Range"))
	switch {
	case !ok:
		return 0, wrong("the server does not say which part it sends")
	case total != size:
		return 0, changed(fmt.Sprintf("it has %d bytes and not %d", total, size))
	case first != off:
		return 0, wrong("the server sent the bytes from %d on instead of %d", first, off)
	case resp.ContentLength >= 0 && resp.ContentLength != last-first+1:
		return 0, wrong("the server announces %d bytes for a part of %d", resp.ContentLength, last-first+1)
	}
	return 0, f.origin.Accept(resp)
}

// maxSize is the size of the largest file that is believed.
const maxSize = 16 << 40

// ContentRange reads "bytes FIRST-LAST/TOTAL", as it stands before a part of a file.
func ContentRange(s string) (first, last, total int64, ok bool) {
	s, ok = strings.CutPrefix(s, "bytes ")
	span, size, ok2 := strings.Cut(s, "/")
	from, to, ok3 := strings.Cut(span, "-")
	first, err := strconv.ParseInt(from, 10, 64)
	last, err2 := strconv.ParseInt(to, 10, 64)
	total, err3 := strconv.ParseInt(size, 10, 64)
	ok = ok && ok2 && ok3 && errors.Join(err, err2, err3) == nil && 0 <= first && first <= last && last < total && total <= maxSize
	return first, last, total, ok
}
