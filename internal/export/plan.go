package export

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tensorfs/tensorfs"
	"golang.org/x/sys/unix"
)

// Names of files that do not have their final names yet. A link is never written to.
const (
	partialSuffix = ".partial"
	linkSuffix    = ".link"
)

// plan is what is to be done.
type plan struct {
	report      Report
	files, last []*output
}

// output is a file that is not complete.
type output struct {
	File
	size    int64
	partial string         // its name in stateDir until it is complete
	have    map[int64]bool // stretches that are there
	cloned  bool
	linked  bool // it is a file of the model, and is only given its name

	mu      sync.Mutex
	out     *os.File // once a worker began it
	pending int      // stretches that are missing
}

// partialName is the name of an incomplete file. Incomplete files are in one directory of our own, so that their names cannot clash with the
// tree's.
func partialName(path string) string {
	sum := sha256.Sum256([]byte(path))
	return hex.EncodeToString(sum[:16]) + partialSuffix
}

// plan looks at what is there. It writes nothing that has a name in the tree.
func (x *exporter) plan(ctx context.Context, files []File) (*plan, error) {
	p := &plan{}
	var last []File
	for _, f := range files {
		size := f.Data.Size()
		p.report.Files++
		p.report.Bytes += size
		complete, err := x.complete(ctx, f, size)
		if err != nil {
			return nil, err
		}
		switch {
		case f.Last:
			last = append(last, f)
			if !complete {
				p.last = append(p.last, x.output(f, size))
			}
		case !complete:
			p.files = append(p.files, x.output(f, size))
		}
	}
	if len(p.files) > 0 && len(p.last) < len(last) { // they say that all is complete, which it is not
		p.last = nil
		for _, f := range last {
			p.last = append(p.last, x.output(f, f.Data.Size()))
		}
	}
	for _, f := range slices.Concat(p.files, p.last) {
		if !x.cloneStored(f) {
			x.linkStored(f)
		}
	}
	return p, nil
}

func (x *exporter) output(f File, size int64) *output {
	o := &output{File: f, size: size, partial: partialName(f.Path)}
	o.pending = int(max((size+x.stretch-1)/x.stretch, 1))
	if o.pending == 1 { // not worth it
		return o
	}
	have := x.state.stretches[tensorfs.Printable(f.Path)]
	if st, err := x.own.Lstat(o.partial); err == nil && st.Mode().IsRegular() && st.Size() == size && len(have) > 0 {
		o.have = have
		o.pending -= len(have)
	}
	return o
}

// complete reports whether a file exists as planned. An error describes what is there
// instead.
func (x *exporter) complete(ctx context.Context, f File, size int64) (bool, error) {
	d, base, err := x.parent(f.Path, false)
	if err != nil || d == nil {
		return false, err
	}
	st, err := d.Lstat(base)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return false, nil
	case err != nil:
		return false, x.failed(f.Path, err)
	}
	if r, ok := x.state.done[tensorfs.Printable(f.Path)]; ok && r.is(st) && size == r.Number {
		return true, nil
	}
	// A file that came here in another way, or whose record was lost with the power.
	same := false
	if st.Mode().IsRegular() && st.Size() == size {
		there, now, err := d.OpenRegular(base)
		if err != nil {
			return false, x.failed(f.Path, err)
		}
		st = now // of what is compared
		same, err = x.same(ctx, f, there, size)
		there.Close()
		if err != nil {
			return false, err
		}
	}
	switch {
	case same:
		return true, x.state.add(doneRecord(f.Path, st))
	case st.IsDir():
		return false, fmt.Errorf("%s: a directory of this name %w; choose another directory", x.shown(f.Path), os.ErrExist)
	case x.never(st):
		return false, fmt.Errorf("%s is a file of the model itself, which is never written to; choose another directory", x.shown(f.Path))
	case !x.Force:
		return false, fmt.Errorf("%s %w, with other content", x.shown(f.Path), ErrExists)
	}
	return false, nil
}

// never reports whether a file must not be replaced.
func (x *exporter) never(st os.FileInfo) bool {
	for _, n := range x.Never {
		if os.SameFile(n, st) {
			return true
		}
	}
	return false
}

// same reports whether a file that is there has the bytes that it should have.
func (x *exporter) same(ctx context.Context, f File, there *os.File, size int64) (bool, error) {
	a, b := make([]byte, min(piece, size)), make([]byte, min(piece, size))
	for off := int64(0); off < size; off += piece {
		n := min(piece, size-off)
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if got, err := there.ReadAt(a[:n], off); int64(got) < n {
			return false, x.failed(f.Path, err)
		}
		if err := tensorfs.ReadFullContext(ctx, f.Data, b[:n], off); err != nil {
			return false, err
		}
		if !bytes.Equal(a[:n], b[:n]) {
			return false, nil
		}
	}
	return true, x.check(f.Data)
}

// missing is how many bytes of a file are to be written.
func (o *output) missing(stretch int64) (n int64) {
	if o.cloned || o.linked {
		return 0
	}
	n = o.size
	for i := range o.have {
		n -= min(stretch, o.size-i*stretch)
	}
	return n
}

// bytes is how many bytes are to be written.
func (p *plan) bytes(stretch int64) (n int64) {
	for _, list := range [][]*output{p.files, p.last} {
		for _, f := range list {
			n += f.missing(stretch)
		}
	}
	return n
}

// close closes what an early end left open.
func (p *plan) close() {
	for _, f := range append(p.files, p.last...) {
		if f.out != nil {
			f.out.Close()
		}
	}
}

// NoSpaceError is the error that the file system lacks room for the export.
type NoSpaceError struct {
	Dir        string
	Need, Free int64 // bytes
}

func (e *NoSpaceError) Error() string {
	return fmt.Sprintf("%s: %s are to be written, but only %s are free; free some space or choose another directory",
		tensorfs.Printable(e.Dir), bytesText(e.Need), bytesText(e.Free))
}

// bytesText is a number of bytes, and about how many that is in a larger unit.
func bytesText(n int64) string {
	if n < 1<<10 {
		return fmt.Sprintf("%d bytes", n)
	}
	f, unit := float64(n)/(1<<10), 0
	for f >= 1<<10 && unit < 3 {
		f, unit = f/(1<<10), unit+1
	}
	return fmt.Sprintf("%d bytes (%.1f %ciB)", n, f, "KMGT"[unit])
}

// block is what file systems give space in.
const block = 4096

// checkSpace compares what is to be written with what is free.
func (x *exporter) checkSpace(p *plan) error {
	need := int64(0)
	for _, list := range [][]*output{p.files, p.last} {
		for _, f := range list {
			need += (f.missing(x.stretch) + block - 1) / block * block
		}
	}
	free := x.Free
	if free == nil {
		free = func(string) (int64, error) { return freeBytes(x.at.File()) }
	}
	n, err := free(x.at.Path())
	if err != nil || need <= n { // a file system that does not tell will say when it is full
		return nil
	}
	return &NoSpaceError{x.at.Path(), need, n}
}

var errNotTold = errors.New("the file system does not say how large it is")

func freeBytes(dir *os.File) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(dir.Fd()), &st); err != nil {
		return 0, err
	}
	if st.Blocks == 0 {
		return 0, errNotTold
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}

// unprintable undoes tensorfs.Printable.
func unprintable(s string) string {
	if strings.HasPrefix(s, `"`) {
		if raw, err := strconv.Unquote(s); err == nil {
			return raw
		}
	}
	return s
}
