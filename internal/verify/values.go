package verify

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/source"
	"github.com/tensorfs/tensorfs/views"
	"github.com/tensorfs/tensorfs/views/tree"
)

// valueJobs are what verify reads: files whose digests are known, and all tensors.
func valueJobs(t *tree.Tree, opts views.Options, r *Reporter) []job {
	var jobs []job
	r.digests = knownDigests{}
	for _, s := range t.Model.Sources {
		if !s.Local() {
			far := farJobs(t, s, r)
			r.digests[s.Name] = len(far) > 0
			jobs = append(jobs, far...)
			continue
		}
		want, says := DigestOf(s.Path), "its name has"
		if want == "" {
			record, ok := source.RecordOf(s.Path)
			want, says = digest(record.Digest), "the record of its download has"
			r.recorded = r.recorded || ok
		}
		if want == "" {
			continue
		}
		r.digests[s.Name] = true
		d, closed, err := openSource(t.Model, s)
		bytes := int64(0)
		if err == nil {
			bytes = d.Size()
		}
		jobs = append(jobs, job{&r.Files, bytes, func(ctx context.Context, job int, read func(int64)) error {
			if err != nil {
				r.find(Finding{File: s.Name, Kind: kindUnread, Problem: err.Error(), job: job})
				return nil
			}
			defer closed()
			got, err := want.of(ctx, d, read)
			return r.unlessEnded(ctx, Finding{File: s.Name, job: job}, err, func(f Finding) {
				if got != want {
					f.Kind, f.Problem = KindDigest, fmt.Sprintf("its digest is %s, %s %s", got, says, want)
					r.find(f)
				}
			})
		}})
	}
	for i := range t.Model.Tensors {
		x := &t.Model.Tensors[i]
		jobs = append(jobs, job{&r.Tensors, x.Data.Size(), func(ctx context.Context, job int, read func(int64)) error {
			c, err := views.Count(ctx, x, opts, read)
			return r.unlessEnded(ctx, Finding{Tensor: x.Name, job: job}, err, func(f Finding) {
				if f.Problem = notFinite(c); f.Problem != "" {
					f.Kind = KindValues
					r.find(f)
				}
				r.checkZeros(t.Model, x, c, f)
				if c.Overflow > 0 {
					r.overflow(Overflow{x.Weight(), c.Overflow, c.Numbers, c.Largest, job})
				}
			})
		}})
	}
	return append(jobs, holeJobs(t.Model, r)...)
}

// farJobs are the jobs for a remote file: it is fetched into the cache, which compares it
// with the server's digest.
func farJobs(t *tree.Tree, s tensorfs.Source, r *Reporter) []job {
	d, err := t.Model.File(s.Name)
	f, ok := d.(FarFile)
	if err == nil && (!ok || f.Digest() == "") { // it came with the listing, or there is nothing to compare
		return nil
	}
	bytes := int64(0)
	if err == nil {
		bytes = f.Size()
	}
	return []job{{&r.Files, bytes, func(ctx context.Context, job int, read func(int64)) error {
		if err == nil {
			err = f.Verify(ctx, read)
		}
		if errors.Is(err, tensorfs.ErrChanged) {
			r.find(Finding{File: s.Name, Kind: KindDigest, Problem: err.Error(), job: job})
			return nil
		}
		return r.unlessEnded(ctx, Finding{File: s.Name, job: job}, err, func(Finding) {})
	}}}
}

// unlessEnded makes a finding of an error, or calls found without one. It
// returns the error of ctx if that is what it is.
func (r *Reporter) unlessEnded(ctx context.Context, f Finding, err error, found func(Finding)) error {
	switch {
	case err == nil:
		found(f)
	case ctx.Err() != nil:
		return err
	default:
		f.Kind, f.Problem = kindUnread, err.Error()
		r.find(f)
	}
	return nil
}

// notFinite lists the numbers that are not finite, "" if all are.
func notFinite(c views.Counts) string {
	var what []string
	for _, kind := range []struct {
		n    int64
		name string
	}{{c.NaN, "NaN"}, {c.Infinite, "infinite"}} {
		switch kind.n {
		case 0:
		case 1:
			what = append(what, "1 value is "+kind.name)
		default:
			what = append(what, fmt.Sprintf("%d values are %s", kind.n, kind.name))
		}
	}
	return strings.Join(what, ", ")
}
