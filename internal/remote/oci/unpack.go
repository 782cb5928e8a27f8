package oci

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"strings"
	"syscall"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/tensorfs/tensorfs"
	"github.com/tensorfs/tensorfs/internal/cache"
	"github.com/tensorfs/tensorfs/internal/remote"
	"github.com/tensorfs/tensorfs/internal/web"
)

// packing is a way to compress that can be undone.
type packing struct {
	magic  string // begins what is compressed
	reader func(r io.Reader) (io.ReadCloser, error)
}

var packings = map[string]packing{
	"gzip": {"\x1f\x8b", func(r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) }},
	"zstd": {"\x28\xb5\x2f\xfd", func(r io.Reader) (io.ReadCloser, error) {
		d, err := zstd.NewReader(r, zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}},
}

// maxWindow is how much of what was unpacked zstd may refer to: what its own program allows.
const maxWindow = 128 << 20

const maxMagic = 4

// unpacks reports whether there is a way to undo a packing.
func unpacks(name string) bool { return packings[name].reader != nil }

// packingOf returns how something is compressed that begins so, "" if it is not.
func packingOf(begin []byte) string {
	for name, p := range packings {
		if strings.HasPrefix(string(begin), p.magic) {
			return name
		}
	}
	return ""
}

// unpacked returns the files of an artifact, including files of compressed archives, from
// the cache or fetched into it.
func (a *artifact) unpacked(ctx context.Context, f artifactFiles) (files []file, err error) {
	for _, x := range f.Files {
		if x.Packing == "" {
			files = append(files, x)
			continue
		}
		members, err := a.ofArchive(ctx, x, f.Image)
		if err != nil {
			return nil, err
		}
		if files = append(files, members...); len(files) > maxMembers {
			return nil, a.s.wrong(a.s.ref, "it has more than "+fmt.Sprint(maxMembers)+" files", advice)
		}
	}
	if files, err = flatten(files, f.Image); err != nil {
		return nil, a.s.wrong(a.s.ref, err.Error(), advice)
	}
	return files, nil
}

// unpackedLayer is what is known of a layer that was unpacked.
type unpackedLayer struct {
	Packing string
	Files   []file
}

// unpackedPin is the name that it is kept under: of a container only a part is.
func unpackedPin(digest string, image bool) string {
	if image {
		return "unpacked image " + digest
	}
	return "unpacked " + digest
}

// ofArchive returns the files of a compressed archive.
func (a *artifact) ofArchive(ctx context.Context, x file, image bool) (list []file, err error) {
	if !sha256Name().MatchString(x.Digest) || !unpacks(x.Packing) {
		return nil, a.damaged()
	}
	pin := unpackedPin(x.Digest, image)
	var known unpackedLayer
	if _, ok := a.o.Store.Pinned(pin, &known); ok && a.absent(known.Files) == 0 {
		return known.Files, nil
	}
	name := a.s.ref.String()
	switch {
	case a.answer.Offline != "":
		return nil, web.ErrOffline(name, a.answer.Offline)
	case a.answer.Silence != nil:
		return nil, a.answer.Silence
	case !a.o.Download:
		return nil, a.s.wrong(a.s.ref, fmt.Sprintf("its layer %d is compressed (%s), so that parts of it cannot be read", x.Layer, x.Packing), "use --download, or run 'tensorfs fetch', to unpack it into the cache")
	case a.o.Store.Dir() == "":
		return nil, a.s.wrong(a.s.ref, fmt.Sprintf("its layer %d is compressed (%s), and there is no cache on a disk to unpack it into", x.Layer, x.Packing), "name a local directory with --cache")
	}
	if list, err = a.unpack(ctx, x, image); err == nil {
		_ = a.o.Store.Pin(pin, unpackedLayer{x.Packing, list}) // if it cannot be kept, the layer is unpacked again next time
	}
	return list, err
}

// damaged is the error of an answer that was kept and cannot be one.
func (a *artifact) damaged() error {
	return a.s.wrong(a.s.ref, "what the cache has of it is damaged", "open it again without "+a.o.Offline)
}

// absent returns how many bytes of unpacked files are not in the cache.
func (a *artifact) absent(list []file) (n int64) {
	for _, f := range list {
		if f.Kind != "" {
			continue
		}
		if f.Part == nil || f.Part.Off < 0 || f.Part.Size < 0 {
			return 1
		}
		entry, err := a.o.Store.Entry(f.unpackedID(a.label(f), time.Time{}))
		if err != nil {
			return 1
		}
		for _, m := range entry.Missing(0, f.Part.Size) {
			n += m.N
		}
		entry.Close()
	}
	return n
}

// label is a file's name for messages.
func (a *artifact) label(f file) string { return a.s.ref.String() + "/" + f.Name }

// unpackedID is the identity of a file that a layer unpacks to. It is derived only from a
// layer with the right digest, so it does not depend on the sender.
func (f file) unpackedID(label string, at time.Time) cache.ID {
	return cache.ID{Key: fmt.Sprintf("unpacked %s at %d", f.Digest, f.Part.Off), Size: f.Part.Size, Source: label, ModTime: at}
}

// lost is the error of reading bytes that the cache has lost.
func lost(label string) error {
	return &tensorfs.FormatError{File: label, Offset: -1, Problem: "the cache has not all of it any more, and its layer is compressed", Advice: "run 'tensorfs fetch' on the artifact again", Kind: syscall.EIO}
}

// maxUnpacking is how often a layer is unpacked: while it is, room is made in the cache.
const maxUnpacking = 3

// unpack fetches a layer into the cache, checks its digest, and replaces it by its files.
func (a *artifact) unpack(ctx context.Context, x file, image bool) (list []file, err error) {
	at := a.s.ref.String() + "/" + x.Digest + ".tar"
	if list, err = a.unpackAt(ctx, x, at, image); err != nil {
		return nil, err
	}
	// Its files take room enough. One that another process reads is swept later.
	_, _ = a.o.Store.Prune(cache.PruneOptions{Size: math.MaxInt64, Match: func(source string) bool { return source == at }})
	return list, nil
}

func (a *artifact) unpackAt(ctx context.Context, x file, at string, image bool) (list []file, err error) {
	f, err := a.layer(x, at)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	add, end := a.progress(fmt.Sprintf("fetch layer %d", x.Layer), x.Size)
	err = f.Verify(ctx, add)
	end()
	if err != nil {
		return nil, err
	}
	for range maxUnpacking {
		if list, err = a.unpackOnce(ctx, x, f, image); err != nil || a.absent(list) == 0 {
			return a.result(ctx, x, at, list, err)
		}
	}
	limit, _ := a.o.Store.Limit()
	return nil, a.s.wrong(a.s.ref, fmt.Sprintf("the cache, which may have %s, has no room for the files of its layer %d", remote.Gigabytes(limit), x.Layer), "make room on its disk, or give it more with --cache-size")
}

func (a *artifact) progress(what string, total int64) (add func(n int64), end func()) {
	if a.o.Progress == nil {
		return func(int64) {}, func() {}
	}
	return a.o.Progress(what, total)
}

// unpackOnce stores the files of a layer as far as there is room.
func (a *artifact) unpackOnce(ctx context.Context, x file, f *web.File, image bool) (list []file, err error) {
	add, end := a.progress(fmt.Sprintf("unpack layer %d", x.Layer), x.Size)
	defer end()
	packed := bufio.NewReaderSize(counting{io.NewSectionReader(reader{ctx, f}, 0, x.Size), add}, 1<<20)
	begin, _ := packed.Peek(maxMagic)
	plain := io.NopCloser(io.Reader(packed))
	if packing := packingOf(begin); packing != "" { // whatever it is said to be
		if plain, err = packings[packing].reader(packed); err != nil {
			return nil, broken(err)
		}
	}
	defer plain.Close()
	limit, _ := a.o.Store.Limit()
	s := &stream{r: plain, ctx: ctx, limit: limit, sum: sha256.New()}
	w := archiveReader{tar.NewReader(s), func() int64 { return s.off }, -1, image}
	now := time.Now().Truncate(time.Second)
	err = w.walk(func(m member, body io.Reader) error {
		if len(list) >= maxMembers {
			return errMembers
		}
		one := x.member(m)
		list = append(list, one)
		if m.kind != "" {
			return nil
		}
		if m.size > limit-s.off {
			return s.tooMuch()
		}
		return a.store(ctx, one.unpackedID(a.label(one), now), body)
	})
	if err == nil {
		_, err = io.Copy(io.Discard, s) // its end has the checksum
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = broken(err)
	}
	if err != nil {
		return nil, err
	}
	if got := "sha256:" + hex.EncodeToString(s.sum.Sum(nil)); strings.HasPrefix(x.Content, "sha256:") && got != x.Content {
		return nil, fmt.Errorf("unpacks to bytes that do not match the manifest's digest (%s)", tensorfs.Printable(x.Content))
	}
	for i := range list {
		list[i].Unpacked = list[i].Kind == ""
	}
	return list, nil
}

// store keeps a file, unless the cache has it.
func (a *artifact) store(ctx context.Context, id cache.ID, body io.Reader) error {
	entry, err := a.o.Store.Entry(id)
	if err != nil {
		return err
	}
	defer entry.Close()
	if len(entry.Missing(0, id.Size)) == 0 {
		return nil
	}
	w := entry.Writer(0)
	_, err = w.Fill(body, id.Size, nil)
	if err := errors.Join(err, w.Close()); err != nil {
		return err
	}
	if err := entry.Verify(ctx); !errors.Is(err, cache.ErrAbsent) { // it is unpacked once more
		return err
	}
	return nil
}

// broken puts an error of an unpacker into words.
func broken(err error) error {
	switch {
	case is[*tensorfs.FormatError](err), is[*tensorfs.ChangedError](err): // of the layer's bytes
		return err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("ends too early")
	case errors.Is(err, zstd.ErrWindowSizeExceeded):
		return fmt.Errorf("takes more than %d MiB of memory to unpack", maxWindow>>20)
	}
	return errors.New("is damaged: it cannot be unpacked")
}

// stream is what a layer unpacks to, up to a limit.
type stream struct {
	r     io.Reader
	ctx   context.Context
	off   int64
	limit int64
	sum   hash.Hash
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	if s.off > s.limit {
		return 0, s.tooMuch()
	}
	n, err := s.r.Read(p)
	s.off += int64(n)
	s.sum.Write(p[:n])
	if err != nil && err != io.EOF && s.ctx.Err() == nil {
		err = broken(err)
	}
	return n, err
}

// tooMuch is the error of a layer that unpacks to more than the cache may have.
func (s *stream) tooMuch() error {
	return fmt.Errorf("unpacks to more than the %s that the cache may have", remote.Gigabytes(s.limit))
}

// counting tells how much was read.
type counting struct {
	io.Reader
	add func(n int64)
}

// Read implements io.Reader.
func (c counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.add(int64(n))
	return n, err
}
